// Which two profiles of a list are worth comparing.
import type { ProfileEntry } from "./types";

/** How many pairs are suggested. */
const MOST_PAIRS = 3;
/** Step times of one workload that differ less are not worth a look. */
const APART = 1.1;

/** Profiles of one folder, GPU, model, framework and phase whose step times differ most: the faster and the slower one. */
export function pairsOf(profiles: ProfileEntry[]): [ProfileEntry, ProfileEntry][] {
  const groups = new Map<string, ProfileEntry[]>();
  for (const row of profiles) {
    const card = row.card;
    if (!card?.step_ms || card.rank !== null) continue;
    const folder = row.path.slice(0, row.path.lastIndexOf("/"));
    const key = JSON.stringify([folder, card.gpu, card.model, card.framework, card.phase]);
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const step = (row: ProfileEntry): number => row.card?.step_ms ?? 0;
  return [...groups.values()]
    .map((group) => [...group].sort((a, b) => step(a) - step(b)))
    .flatMap((group): [ProfileEntry, ProfileEntry][] => (group.length > 1 ? [[group[0] as ProfileEntry, group[group.length - 1] as ProfileEntry]] : []))
    .filter(([fast, slow]) => step(slow) >= APART * step(fast))
    .sort((a, b) => step(b[1]) / step(b[0]) - step(a[1]) / step(a[0]))
    .slice(0, MOST_PAIRS);
}
