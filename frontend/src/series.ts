// Which profiles of a store are one series over time: those of one model on one GPU.
import type { StoreSeries } from "./types";

export interface Series { name: string; /** What to ask the server for. */ query: string }

/** How the server calls a fact that a profile does not have. */
const UNKNOWN = "(unknown)";
/** Lines that are drawn. */
const MOST = 6;

/** One series per model and GPU, those with the most profiles first, as they come; one in all where there is nothing to tell apart. */
export function seriesOf(groups: Pick<StoreSeries, "model" | "gpu">[], chosen: URLSearchParams): Series[] {
  if (groups.length < 2) return [{ name: "", query: chosen.toString() }];
  return groups.slice(0, MOST).map(({ model, gpu }) => {
    const query = new URLSearchParams(chosen);
    // A fact that is left out would choose every value of it.
    query.set("model", model ?? UNKNOWN);
    query.set("gpu", gpu ?? UNKNOWN);
    return { name: `${model ?? "unknown model"} on ${gpu ?? "unknown GPU"}`, query: query.toString() };
  });
}
