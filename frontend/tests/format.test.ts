import { expect, test } from "vitest";
import { axesText, bytes, counted, ms, number, percent, rate, shorten, signed, time, times, us, withMinus } from "../src/format";
import { inUnit, sizeFormat, timeFormat } from "../src/units";

test.each([
  [null, "–"], [undefined, "–"], [Number.NaN, "–"], [0, "0"], [0.00001, "1.0e-5"], [0.12345, "0.123"], [99.96, "100"], [1234567, "1,234,567"], [-1234.5, "−1,235"], [-0.25, "−0.25"],
])("number %s is %s", (value, text) => expect(number(value)).toBe(text));

test.each([
  [null, "–"], [0, "0"], [7, "7 ns"], [999, "999 ns"], [1000, "1.000 µs"], [12_345, "12.35 µs"], [123_456, "123 µs"], [1e6, "1.000 ms"], [84_490_000, "84.49 ms"], [2.5e9, "2.500 s"],
])("%s ns is %s", (value, text) => expect(time(value)).toBe(text));

test("milliseconds and microseconds are times", () => {
  expect(ms(0.001)).toBe("1.000 µs");
  expect(us(1500)).toBe("1.500 ms");
  expect(ms(null)).toBe("–");
});

test.each([[-0.04, "0.0 %"], [-3.21, "−3.2 %"], [100, "100.0 %"], [null, "–"]])("%s percent is %s", (value, text) => expect(percent(value)).toBe(text));

test("differences have a sign, and none has none", () => {
  expect(signed(1.5, ms)).toBe("+1.500 ms");
  expect(signed(-1.5, ms)).toBe("−1.500 ms");
  expect(signed(0, ms)).toBe("0");
  expect(signed(null, ms)).toBe("–");
});

test("one is singular", () => expect([counted(0, "call"), counted(1, "call"), counted(1200, "call")]).toEqual(["0 calls", "1 call", "1,200 calls"]));

test("ratios have two digits that matter and are never 0", () => expect([times(1.234), times(0.00123), times(123.4), times(null)]).toEqual(["1.23×", "0.0012×", "123×", "–"]));

test("bytes count in thousands", () => expect([bytes(999), bytes(1_770_000), bytes(5.5e12), bytes(null)]).toEqual(["999 B", "1.77 MB", "5.5 TB", "–"]));

test("long names keep both ends", () => {
  expect(shorten("abc", 3)).toBe("abc");
  expect(shorten("a_long_kernel_name", 9)).toBe("a_lon…ame");
  expect(shorten("a_long_kernel_name", 9)).toHaveLength(9);
});

test("axes are as recorded, bytes as people read them", () => {
  expect(axesText({ m: 888, dtype: "bf16", read_bytes: 5_114_880, groups: [1, 2] })).toBe("m=888 dtype=bf16 read_bytes=5.11\u00a0MB groups=[1,2]");
  expect(axesText(null)).toBe("–");
});

test("a column of times has one unit, in which most can be read", () => {
  expect(timeFormat([5_911_000, 2_142_000, 803_000, 178_000])).toEqual({ unit: "ms", decimals: 3, needed: true });
  expect(timeFormat([63_613_365, 9_277_331, 535_612, 287_423, 236_220])).toEqual({ unit: "µs", decimals: 1, needed: true });
  expect(timeFormat([500, 700, null, 0])).toEqual({ unit: "ns", decimals: 0, needed: true });
  // Nothing but zeros needs no unit.
  expect(timeFormat([0, null])).toEqual({ unit: "ns", decimals: 0, needed: false });
  // Most are small, but the largest would have seven digits.
  expect(timeFormat([3.9e9, 2000, 2000, 2000]).unit).toBe("ms");
});

test("times of a column stand even, and what is not 0 is not written as 0", () => {
  const format = timeFormat([5_911_000, 2_142_000, 803_000]);
  expect([5_911_000, 12_345_678_000, 100, -803_000, 0].map((ns) => inUnit(ns, format))).toEqual(["5.911", "12,345.678", "<0.001", "−0.803", "0"]);
});

test.each([[4.5e-6, "<0.001"], [0.0206, "0.0206"], [0, "0"], [null, "–"]])("rate %s is %s", (value, text) => expect(rate(value)).toBe(text));

test("sizes of a column have one unit", () => {
  const format = sizeFormat([816_000, 36_600, 1_140_000, 1_960_000]);
  expect([816_000, 36_600, 1_960_000].map((size) => `${inUnit(size, format)} ${format.unit}`)).toEqual(["0.816 MB", "0.037 MB", "1.960 MB"]);
  expect(sizeFormat([65_536, 262_144]).unit).toBe("kB");
});

test("sentences have minus signs before numbers, and hyphens elsewhere", () => {
  expect(withMinus("idle +12.64 ms, all else -0.33 ms (-2 %) in 2-3 launch-bound steps of v1-2, --top -1")).toBe("idle +12.64 ms, all else −0.33 ms (−2 %) in 2-3 launch-bound steps of v1-2, --top −1");
});
