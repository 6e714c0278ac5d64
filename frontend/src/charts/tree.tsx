// Where the time goes: nested areas, phase over role over kernel; a click goes in.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Chart, mark, widthOf, type Frame, type Ink } from "../chart";
import { categoryColor, inkOn } from "../colors";
import { counted, percent, shorten, time } from "../format";
import type { TimeNode } from "../types";
import { areasOf, type Rect } from "./areas";

const LEAF = { size: 11, line: 14 };
const HEAD = { size: 12, line: 20 };
/** Room around a label. */
const MARGIN = 12;
/** Letters below which what is left of a name tells nothing, and from which on both its ends are shown. */
const [LEAST, ENDS] = [8, 18];
/** Pixels below which an area is not drawn. */
const SEEN = 1;
const HEIGHT = 410;

/** A name as far as it can be read in that width; nothing where that is too little. */
export function readable(name: string, room: number, size: number): string {
  const width = widthOf(name, size);
  if (width <= room) return name;
  for (let most = Math.floor((name.length * room) / width) + 2; most >= LEAST; most -= 1) {
    const text = most < ENDS ? `${name.slice(0, most - 1)}…` : shorten(name, most);
    if (widthOf(text, size) <= room) return text;
  }
  return "";
}

/** Name and share of a leaf, in one line or two. */
function leafLabel(name: string, share: string, area: Rect): string[] {
  const room = area.width - MARGIN;
  const text = readable(name, room, LEAF.size);
  const lines = Math.floor((area.height - 2) / LEAF.line);
  if (!text || lines < 1) return [];
  return lines > 1 && widthOf(share, LEAF.size) <= room ? [text, share] : [text];
}

/** Name and share of what lies below, the share only beside a whole name. */
function headLabel(name: string, share: string, area: Rect): string {
  const room = area.width - MARGIN;
  const both = `${name}  ${share}`;
  return widthOf(both, HEAD.size) <= room ? both : readable(name, room, HEAD.size);
}

interface Context { all: number; depth: number; ink: Ink; enter: (path: TimeNode[]) => void }

const about = (node: TimeNode, all: number) => mark(node.name, `${time(node.time_ns)} · ${percent((100 * node.time_ns) / all)} of GPU time`, `${counted(node.calls, "call")}${node.category ? ` · ${node.category}` : ""}`);

/** The areas of a node's children; those with room and children of their own are divided again. */
function Areas({ node, path, rect, level, context }: { node: TimeNode; path: TimeNode[]; rect: Rect; level: number; context: Context }) {
  const { all, depth, ink, enter } = context;
  const children = [...node.children].sort((a, b) => b.time_ns - a.time_ns);
  const areas = areasOf(children.map((child) => child.time_ns), rect);
  const found: ComponentChildren[] = [];
  children.forEach((child, at) => {
    const area = areas[at] as Rect;
    if (area.width < SEEN || area.height < SEEN) return;
    const inside = [...path, child];
    const share = percent((100 * child.time_ns) / all);
    const divided = child.children.length > 0 && level + 1 < depth && area.height > HEAD.line + 12 && area.width > 24;
    const color = categoryColor(child.category);
    const lines = divided ? [] : leafLabel(child.children.length ? `▶ ${child.name}` : child.name, share, area);
    const head = divided ? headLabel(child.name, share, area) : "";
    found.push(
      <g key={at}>
        <rect class="pick" x={area.x} y={area.y} width={Math.max(0.5, area.width - 1)} height={Math.max(0.5, area.height - 1)} fill={divided ? ink.line : color} onClick={() => enter(child.children.length ? inside : path)} {...about(child, all)} />
        {head && <text x={area.x + 5} y={area.y + 14} font-size={HEAD.size} fill={ink.text} data-on={ink.line} pointer-events="none" xml:space="preserve">{head}</text>}
        {lines.map((line, row) => <text key={row} x={area.x + 5} y={area.y + 13 + LEAF.line * row} font-size={LEAF.size} fill={inkOn(color)} data-on={color} pointer-events="none">{line}</text>)}
        {divided && <Areas node={child} path={inside} rect={{ x: area.x + 1, y: area.y + HEAD.line, width: area.width - 3, height: area.height - HEAD.line - 2 }} level={level + 1} context={context} />}
      </g>,
    );
  });
  return <g>{found}</g>;
}

export function TimeTree({ tree, depth }: { tree: TimeNode; depth: number }) {
  const [path, setPath] = useState<TimeNode[]>([]);
  const root = path[path.length - 1] ?? tree;
  if (!tree.time_ns) return <p class="about">Nothing ran on a GPU in this profile.</p>;
  // Into what was clicked, or, for a kernel, into what it is part of.
  const draw = ({ width, height, ink, narrow }: Frame) => <Areas node={root} path={path} rect={{ x: 0, y: 0, width, height }} level={0} context={{ all: tree.time_ns, depth: depth - (narrow ? 1 : 0), ink, enter: setPath }} />;
  return (
    <>
      <nav class="crumbs" aria-label="Shown part of the time">
        {[tree, ...path].map((one, at) => <button key={at} type="button" aria-current={at === path.length ? "true" : undefined} onClick={() => setPath(path.slice(0, at))}>{at ? one.name : "GPU time"} <span class="faint">{percent((100 * one.time_ns) / tree.time_ns)}</span></button>)}
      </nav>
      <div class="areas"><Chart label="GPU time by phase, role and kernel: larger areas take more time. The kernel table below has the same figures as text." height={HEIGHT} draw={draw} /></div>
    </>
  );
}
