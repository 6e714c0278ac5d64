// The words for steps that a number is about.
import { expect, test } from "vitest";
import { everyPhase, meanStep, stepsCounted } from "../src/steps";
import type { StepBasis } from "../src/types";

const basis = (change: Partial<StepBasis> = {}): StepBasis => ({ phase: "decode", steps: 10, of: 10, step_ms: 2.5, measured: "start_to_start", left_out: { cut: 0, first: 0, last: 0, outlier: 0 }, outlier_ms: null, ...change });

test("steps that are left out are counted with the reason", () => {
  expect(stepsCounted(basis())).toBe("10 decode steps");
  expect(stepsCounted(basis({ of: 12, left_out: { cut: 1, first: 0, last: 0, outlier: 1 } }))).toBe("10 of 12 decode steps (left out: 1 cut off, 1 over 2 times the median)");
  expect(stepsCounted(basis({ of: 12, left_out: { cut: 0, first: 1, last: 1, outlier: 0 } }), false)).toBe("10 of 12 steps (left out: the first, the last, which no step follows)");
  expect(stepsCounted(basis({ steps: 0, of: 0 }))).toBe("the whole recording (no steps found)");
});

test("the mean says of what, and where a step ends", () => {
  expect(meanStep(basis())).toBe("decode step of 2.500 ms to the start of the next, mean of 10 steps");
  expect(meanStep(basis({ steps: 1, of: 1, measured: "extent", phase: null }))).toBe("step of 2.500 ms to its last activity (no step follows), the only one");
  expect(meanStep(basis({ steps: 0, of: 0, measured: "recording" }))).toBe("recording of 2.500 ms; no steps found");
  expect(everyPhase([basis(), basis({ phase: "prefill", steps: 1, of: 1 })])).toBe("10 decode steps; 1 prefill step");
});
