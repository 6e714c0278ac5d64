import { expect, test } from "vitest";
import { seriesOf } from "../src/series";

const of = (model: string | null, gpu: string | null, recorded_ns: number | null = 1, steps = 5) => ({ model, gpu, recorded_ns, steps });

test("one line per model and GPU, the largest first, within what was chosen", () => {
  const profiles = [of("a", "H200"), of("b", "H200"), of("b", "H200"), of(null, "B200")];
  expect(seriesOf(profiles, new URLSearchParams({ framework: "vllm" }))).toEqual([
    { name: "b on H200", query: "framework=vllm&model=b&gpu=H200" },
    { name: "a on H200", query: "framework=vllm&model=a&gpu=H200" },
    { name: "unknown model on B200", query: "framework=vllm&model=%28unknown%29&gpu=B200" },
  ]);
});

test("what is unknown is a series of its own, not all that is known", () => {
  const profiles = [of("a", "H200"), of(null, "H200"), of(null, "H200"), of("a", null), of(null, null)];
  const chosen = seriesOf(profiles, new URLSearchParams()).map(({ name, query }) => [name, ...new URLSearchParams(query).values()]);
  expect(chosen).toEqual([
    ["unknown model on H200", "(unknown)", "H200"],
    ["a on H200", "a", "H200"],
    ["a on unknown GPU", "a", "(unknown)"],
    ["unknown model on unknown GPU", "(unknown)", "(unknown)"],
  ]);
});

test("one series is asked for as it was chosen", () => {
  for (const profiles of [[], [of("a", "H200"), of("a", "H200")]]) expect(seriesOf(profiles, new URLSearchParams({ gpu: "H200" }))).toEqual([{ name: "", query: "gpu=H200" }]);
});

test("profiles without a date or steps make no line", () => {
  expect(seriesOf([of("a", "H200"), of("a", "B200", null), of("b", "H200", 1, 0)], new URLSearchParams())).toEqual([{ name: "", query: "" }]);
});

test("many series are cut to those with the most profiles", () => {
  const profiles = Array.from({ length: 20 }, (_, at) => of(`model ${at}`, "H200"));
  expect(seriesOf([...profiles, of("model 7", "H200")], new URLSearchParams()).map((one) => one.name)[0]).toBe("model 7 on H200");
  expect(seriesOf(profiles, new URLSearchParams())).toHaveLength(6);
});
