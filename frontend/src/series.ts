// Which profiles of a store are one series over time: those of one model on one GPU.
import type { StoreProfile } from "./types";

export interface Series { name: string; /** What to ask the server for. */ query: string }

/** How the server calls a fact that a profile does not have. */
const UNKNOWN = "(unknown)";
/** Lines that are drawn. */
const MOST = 6;

/** One series per model and GPU among the profiles, those with the most first; one in all where there is nothing to tell apart. */
export function seriesOf(profiles: Pick<StoreProfile, "model" | "gpu" | "recorded_ns" | "steps">[], chosen: URLSearchParams): Series[] {
  const groups = new Map<string, { model: string | null; gpu: string | null; count: number }>();
  for (const { model, gpu, recorded_ns, steps } of profiles) {
    // Without a date or steps it is no point of a line.
    if (recorded_ns === null || steps === 0) continue;
    const key = JSON.stringify([model, gpu]);
    groups.set(key, { model, gpu, count: (groups.get(key)?.count ?? 0) + 1 });
  }
  if (groups.size < 2) return [{ name: "", query: chosen.toString() }];
  return [...groups.values()].sort((a, b) => b.count - a.count).slice(0, MOST).map(({ model, gpu }) => {
    const query = new URLSearchParams(chosen);
    // A fact that is left out would choose every value of it.
    query.set("model", model ?? UNKNOWN);
    query.set("gpu", gpu ?? UNKNOWN);
    return { name: `${model ?? "unknown model"} on ${gpu ?? "unknown GPU"}`, query: query.toString() };
  });
}
