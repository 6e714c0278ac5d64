// Names that are looked for, and the events that have them.
import { below } from "../root";
import type { EventTimeline, NextEvent } from "../types";
import type { Drawing, Hit } from "./drawing";

/** Which labels hold all words of a text; null where there is none. */
export function matching(timeline: EventTimeline, text: string): Uint8Array | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return Uint8Array.from(timeline.labels, (label) => {
    const all = `${label.name} ${label.full ?? ""} ${label.op ?? ""} ${label.role ?? ""} ${label.category ?? ""}`.toLowerCase();
    return words.every((word) => all.includes(word)) ? 1 : 0;
  });
}

/** The next event with one of these labels after a time, or the last one before it. */
export async function nextEvent(drawing: Drawing, address: string | null, labels: Uint8Array, from: number, back: boolean): Promise<Hit | null> {
  if (drawing.timeline.complete || address === null) return among(drawing, labels, from, back);
  const numbers = [...labels].flatMap((wanted, at) => (wanted ? [at] : [])).slice(0, 400);
  const answer = await fetch(`${below(address)}/next?${back ? "back=1&" : ""}from=${Math.round(from)}&labels=${numbers.join(",")}`);
  const found = answer.ok ? ((await answer.json()) as NextEvent).event : null;
  return found && { lane: found.lane, label: found.label, start: found.start_ns, dur: found.dur_ns, busy: found.dur_ns, count: 1, layer: null, step: null, wait: null };
}

function among(drawing: Drawing, labels: Uint8Array, from: number, back: boolean): Hit | null {
  let best: Hit | null = null;
  for (const [lane, events] of drawing.tiles.base?.lanes ?? []) {
    for (let row = 0; row < events.rows; row += 1) {
      const start = events.start[row] as number;
      if (!labels[events.label[row] as number] || (back ? start >= from : start <= from)) continue;
      if (best && (back ? start <= best.start : start >= best.start)) continue;
      const dur = events.dur[row] as number;
      best = { lane, label: events.label[row] as number, start, dur, busy: dur, count: events.count[row] as number, layer: null, step: null, wait: null };
    }
  }
  return best;
}
