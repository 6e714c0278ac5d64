// Which steps a number is about, in the words of the command line (`report/layout/steps.py`).
import { counted, ms } from "./format";
import type { StepBasis } from "./types";

const REASONS: [keyof StepBasis["left_out"], (count: number) => string][] = [
  ["cut", (count) => `${count} cut off`],
  ["first", () => "the first"],
  ["last", () => "the last, which no step follows"],
  ["outlier", (count) => `${count} over 2 times the median`],
];

/** `10 of 12 decode steps (left out: 1 cut off, 1 over 2 times the median)`. */
export function stepsCounted(basis: StepBasis, named = true): string {
  if (!basis.steps) return "the whole recording (no steps found)";
  const noun = basis.phase && named ? `${basis.phase} step` : "step";
  if (basis.steps === basis.of) return counted(basis.steps, noun);
  const reasons = REASONS.filter(([reason]) => basis.left_out[reason]).map(([reason, text]) => text(basis.left_out[reason]));
  return `${basis.steps} of ${counted(basis.of, noun)} (left out: ${reasons.join(", ")})`;
}

/** The step time, what it is the mean of, and where a step ends. */
export function meanStep(basis: StepBasis): string {
  if (!basis.steps) return `recording of ${ms(basis.step_ms)}; no steps found`;
  const end = basis.measured === "extent" ? "to its last activity (no step follows)" : "to the start of the next";
  const of = basis.of > 1 ? `mean of ${stepsCounted(basis, false)}` : "the only one";
  return `${basis.phase ? `${basis.phase} ` : ""}step of ${ms(basis.step_ms)} ${end}, ${of}`;
}

/** The steps of all phases. */
export const everyPhase = (bases: StepBasis[]): string => bases.map((basis) => stepsCounted(basis)).join("; ");
