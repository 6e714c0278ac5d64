// What ran in a chosen range: the server says it, or, in a report, the events in the file are added up.
import { useEffect, useState } from "preact/hooks";
import { below } from "../root";
import type { EventTimeline, RangeRow, RangeSums } from "../types";
import { decode, firstAbove, type Decoded } from "./events";

export interface InRange { sums: RangeSums | null; error: string | null }

/** Sums over `[from, to)`; null while they are awaited. */
export function useRange(timeline: EventTimeline | null, address: string | null, range: [number, number] | null): InRange {
  const [found, setFound] = useState<InRange>({ sums: null, error: null });
  const [from, to] = range ? range.map(Math.round) as [number, number] : [0, 0];
  useEffect(() => {
    setFound({ sums: null, error: null });
    if (!timeline || to <= from) return;
    const stop = new AbortController();
    const answer = address === null ? decode(timeline.block).then((base) => addUp(timeline, base, from, to)) : fetch(`${below(address)}/range?from=${from}&to=${to}`, { signal: stop.signal }).then(async (response) => {
      if (!response.ok) throw new Error(((await response.json()) as { error?: string }).error);
      return (await response.json()) as RangeSums;
    });
    answer.then((sums) => !stop.signal.aborted && setFound({ sums, error: null })).catch((error: Error) => !stop.signal.aborted && setFound({ sums: null, error: error.message }));
    return () => stop.abort();
  }, [timeline, address, from, to]);
  return found;
}

const KINDS = { gpu: "gpu", idle: "idle", calls: "call" } as const;

function addUp(timeline: EventTimeline, base: Decoded, from: number, to: number): RangeSums {
  const of = (kind: string): RangeRow[] => {
    const rows = new Map<number, RangeRow>();
    timeline.lanes.forEach((lane, at) => {
      const events = lane.kind === kind ? base.lanes.get(at) : undefined;
      if (!events) return;
      for (let row = firstAbove(events.reach, from); row < events.rows; row += 1) {
        const [start, dur] = [events.start[row] as number, events.dur[row] as number];
        if (start >= to) break;
        if (start + dur <= from) continue;
        const label = events.label[row] as number;
        const sum = rows.get(label) ?? { label, calls: 0, total_ns: 0, max_ns: 0 };
        sum.calls += events.count[row] as number;
        sum.total_ns += Math.min(to, start + dur) - Math.max(from, start);
        sum.max_ns = Math.max(sum.max_ns, dur);
        rows.set(label, sum);
      }
    });
    return [...rows.values()].sort((a, b) => b.total_ns - a.total_ns || a.label - b.label);
  };
  return { from_ns: from, to_ns: to, gpu: of(KINDS.gpu), idle: of(KINDS.idle), calls: of(KINDS.calls) };
}
