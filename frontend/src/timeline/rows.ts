// Where each lane stands, and how its events are colored.
import { callColor, categoryColor, causeColor, hostColor, LAYERS, phaseColor } from "../colors";
import type { EventTimeline, Label, Lane, Sensor } from "../types";

export interface Row { lane: number | null; sensor: Sensor | null; title: string; y: number; height: number; depth: number }

const HEIGHT: Record<Lane["kind"], [number, number]> = { step: [20, 20], pass: [15, 15], layer: [15, 15], idle: [16, 16], gpu: [26, 14], call: [16, 12], stack: [13, 13] };
const [SENSOR, SPACE] = [38, 7];
/** Room for a title above a lane. */
export const TITLE = 14;

/** `narrow`: titles have no room beside the lanes, and stand above them. */
export function rowsOf(timeline: EventTimeline, stacks: boolean, narrow: boolean): Row[] {
  const rows: Row[] = [];
  let y = 2;
  timeline.lanes.forEach((lane, at) => {
    if (lane.kind === "stack" && !stacks) return;
    const [first, others] = HEIGHT[lane.kind];
    const height = lane.depth ? others : first;
    if (!lane.depth) y += (at ? SPACE : 0) + (narrow ? TITLE : 0);
    rows.push({ lane: at, sensor: null, title: lane.depth ? "" : lane.title, y, height, depth: lane.depth });
    y += height + 1;
  });
  for (const sensor of timeline.sensors) {
    y += SPACE + (narrow ? TITLE : 0);
    rows.push({ lane: null, sensor, title: `${sensor.name}${sensor.device === null ? "" : ` GPU ${sensor.device}`}`, y, height: SENSOR, depth: 0 });
    y += SENSOR + 1;
  }
  return rows;
}


/** The color of a label in lanes of one kind. */
export function colorOf(kind: Lane["kind"], label: Label): string {
  const category = label.category;
  if (kind === "gpu") return categoryColor(category);
  if (kind === "idle") return causeColor(label.name);
  if (kind === "step" || kind === "pass") return phaseColor(category);
  if (kind === "layer") return LAYERS[Number(label.name.replace(/\D/g, "")) % 2] as string;
  return kind === "call" ? callColor(category) : hostColor(category);
}
