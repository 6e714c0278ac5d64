import { expect, test } from "vitest";
import { TERMS } from "../src/glossary";
import { aboutTerms, inTerms } from "../src/terms";

test("every term is found in a label, in any case, and the text stays whole", () => {
  for (const [term, about] of Object.entries(TERMS)) {
    const label = `The ${term.toUpperCase()} of it`;
    expect(inTerms(label)).toEqual([["The ", null], [term.toUpperCase(), about], [" of it", null]]);
  }
});

test("the longest term counts, once, and no part of a word", () => {
  expect(inTerms("Noise inside the normal run").map(([part]) => part)).toEqual(["Noise inside the normal run"]);
  expect(inTerms("p90 and p90").filter(([, about]) => about)).toHaveLength(1);
  expect(inTerms("wingspan, host-bound, unbounded")).toEqual([["wingspan, host-bound, unbounded", null]]);
  expect(inTerms("")).toEqual([]);
});

test("a heading says what all of its terms mean", () => {
  expect(aboutTerms("Bound p50")).toBe(`Bound: ${TERMS.bound}; p50: ${TERMS.p50}`);
  expect(aboutTerms("Calls")).toBeUndefined();
});
