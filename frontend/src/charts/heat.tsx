// Do layers differ? One row per role, one column per layer in the order of the model.
import { useMemo, useState } from "preact/hooks";
import { categoryColor } from "../colors";
import { percent, time } from "../format";
import { inUnit, timeFormat } from "../units";
import { select, useSelection } from "../selection";
import type { TimeNode } from "../types";
import { HeatMap, type HeatRow } from "./heatmap";

const LAYER = "layer ";
/** Roles that are shown: those with the most time. */
const MOST = 24;

interface Row { role: string; category: string | null; total: number; most: number; cells: (TimeNode | undefined)[] }

function rowsOf(phase: TimeNode): { layers: number[]; rows: Row[]; left: number } {
  const layers = phase.children.filter((node) => node.kind === "layer" && node.name.startsWith(LAYER));
  const roles = new Map<string, Row>();
  layers.forEach((layer, at) => {
    for (const role of layer.children) {
      const row = roles.get(role.name) ?? { role: role.name, category: role.category, total: 0, most: 0, cells: Array.from<TimeNode | undefined>({ length: layers.length }) };
      row.cells[at] = role;
      row.total += role.time_ns;
      row.most = Math.max(row.most, role.time_ns);
      roles.set(role.name, row);
    }
  });
  const rows = [...roles.values()].sort((a, b) => b.total - a.total);
  return { layers: layers.map((node) => Number(node.name.slice(LAYER.length))), rows: rows.slice(0, MOST), left: Math.max(0, rows.length - MOST) };
}

const hasLayers = (phase: TimeNode): boolean => phase.children.filter((node) => node.kind === "layer" && node.name.startsWith(LAYER)).length > 1;

export function HeatStrip({ tree }: { tree: TimeNode }) {
  const phases = useMemo(() => tree.children.filter(hasLayers), [tree]);
  const [at, setAt] = useState(0);
  const selection = useSelection();
  const phase = phases[Math.min(at, phases.length - 1)];
  const found = useMemo(() => phase && rowsOf(phase), [phase]);
  if (!phase || !found) return null;
  const means = found.rows.map((row) => row.total / found.layers.length);
  const format = timeFormat(means);
  const rows = found.rows.map((row, index): HeatRow => ({
    name: row.role,
    color: categoryColor(row.category),
    note: `${inUnit(means[index] ?? 0, format)} ${format.unit}`,
    cells: row.cells.map((cell, column) => {
      const layer = found.layers[column] ?? null;
      return cell && {
        share: (cell.time_ns / row.most) ** 2,
        tip: [`layer ${layer}, ${row.role}: ${time(cell.time_ns)}`, `${percent((100 * cell.time_ns) / row.most)} of the slowest`],
        on: selection.layer === layer && (selection.role === null || selection.role === row.role),
        pick: () => select({ layer, role: row.role, kernel: null, operator: null, shape: null, step: null }),
      };
    }),
  }));
  return (
    <>
      <h3>Do layers differ?</h3>
      <p class="about">Each row is a role, each column a layer; the darker, the closer to the slowest layer of that role. An even row means that layers take the same time. Click a cell to follow that role of that layer.</p>
      {phases.length > 1 && <div class="choice" role="group" aria-label="Phase">{phases.map((one, index) => <button key={one.name} type="button" aria-pressed={one === phase} onClick={() => setAt(index)}>{one.name}</button>)}</div>}
      <HeatMap label={`Time of ${rows.length} roles in ${found.layers.length} layers of ${phase.name}`} rows={rows} columns={found.layers.map((layer) => `layer ${layer}`)} noteTitle="mean" />
      {found.left > 0 && <p class="about">{found.left} roles with less time are left out.</p>}
    </>
  );
}
