// Which profiles of a store are one series over time: those of one model on one GPU.
import type { StoreProfile } from "./types";

export interface Series { name: string; /** What to ask the server for. */ query: string }

/** Lines that are drawn. */
const MOST = 6;

/** One series per model and GPU among the profiles, those with the most first; one in all where there is nothing to tell apart. */
export function seriesOf(profiles: Pick<StoreProfile, "model" | "gpu" | "recorded_ns" | "steps">[], chosen: URLSearchParams): Series[] {
  const groups = new Map<string, { facts: [string, string][]; count: number }>();
  for (const { model, gpu, recorded_ns, steps } of profiles) {
    // Without a date or steps it is no point of a line.
    if (recorded_ns === null || steps === 0) continue;
    const facts = ([["model", model], ["gpu", gpu]] as const).flatMap(([name, value]): [string, string][] => (value === null ? [] : [[name, value]]));
    const key = JSON.stringify(facts);
    groups.set(key, { facts, count: (groups.get(key)?.count ?? 0) + 1 });
  }
  if (groups.size < 2) return [{ name: "", query: chosen.toString() }];
  return [...groups.values()].sort((a, b) => b.count - a.count).slice(0, MOST).map(({ facts }) => {
    const query = new URLSearchParams(chosen);
    for (const [name, value] of facts) query.set(name, value);
    return { name: facts.map(([, value]) => value).join(" on ") || "model and GPU unknown", query: query.toString() };
  });
}
