// Where the time goes: phase, layer, role, kernel from top to bottom, idle time beside them; a click goes in.
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { FONT } from "../chart";
import { categoryColor, causeColor, inkOn, phaseColor } from "../colors";
import { counted, percent, time } from "../format";
import { useParam } from "../params";
import { pngOf } from "../picture";
import { toggle, useSelection, type Selection } from "../selection";
import type { TimeNode } from "../types";
import { readable } from "./tree";

/** Share of the width below which a node is not drawn. */
const LEAST = 0.0008;
/** Share from which on it has a name and can be reached by keyboard. */
const NAMED = 0.02;
/** Share below which a layer has room for its number only. */
const NARROW = 0.06;

interface Placed { node: TimeNode; level: number; left: number; width: number; path: TimeNode[]; color: string }

function colorOf(node: TimeNode): string {
  if (node.kind === "phase") return phaseColor(node.name);
  if (node.kind === "idle") return causeColor(node.children[0]?.name ?? "unlinked");
  if (node.kind === "cause") return causeColor(node.name);
  return categoryColor(node.category);
}

function place(root: TimeNode, above: TimeNode[]): Placed[] {
  const found: Placed[] = [];
  const walk = (node: TimeNode, level: number, left: number, path: TimeNode[]) => {
    const width = node.time_ns / root.time_ns;
    if (width < LEAST) return;
    found.push({ node, level, left, width, path, color: colorOf(node) });
    let at = left;
    for (const child of node.children) {
      walk(child, level + 1, at, [...path, child]);
      at += child.time_ns / root.time_ns;
    }
  };
  let at = 0;
  for (const child of root.children) {
    walk(child, 0, at, [...above, child]);
    at += child.time_ns / root.time_ns;
  }
  return found;
}

/** What a node stands for, in the selection of the page. */
export function chosenBy(node: TimeNode): Partial<Selection> | null {
  if (node.kind === "layer") return node.name.startsWith("layer ") ? { layer: Number(node.name.slice(6)) } : null;
  if (node.kind === "role") return { role: node.name };
  return node.kind === "kernel" && !node.name.startsWith("(") ? { kernel: node.name } : null;
}

const isOn = (node: TimeNode, selection: Selection): boolean => {
  const what = chosenBy(node);
  return what !== null && Object.entries(what).every(([name, value]) => selection[name as keyof Selection] === value);
};

/** The same without idle time. */
function working(node: TimeNode): TimeNode {
  if (!node.children.some((child) => child.kind === "idle" || child.kind === "phase")) return node;
  const children = node.children.filter((child) => child.kind !== "idle").map(working);
  return { ...node, children, time_ns: children.reduce((sum, child) => sum + child.time_ns, 0) };
}

/** The nodes that an address leads through, and whether it is one of this tree. */
function follow(tree: TimeNode, where: string | null): [TimeNode[], boolean] {
  const path: TimeNode[] = [];
  let node = tree;
  for (const step of where?.split(".") ?? []) {
    const next = node.children[Number(step)];
    if (!next?.children.length) return [[], false];
    path.push(next);
    node = next;
  }
  return [path, true];
}

function placeOf(tree: TimeNode, path: TimeNode[]): string | null {
  const places = path.map((node, at) => (path[at - 1] ?? tree).children.indexOf(node));
  return places.length && !places.includes(-1) ? places.join(".") : null;
}

/** The picture as SVG, to be saved. */
function svgOf(placed: Placed[], width: number, height: number, surface: string): SVGSVGElement {
  const holder = document.createElement("div");
  render(
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} font-family={FONT} font-size="12" data-surface={surface}>
      {placed.map((one, at) => {
        const text = readable(one.node.name, one.width * width - 8, 12);
        return <g key={at}><rect x={one.left * width} y={one.level * 30} width={Math.max(0.5, one.width * width - 0.5)} height={29} fill={one.color} />{text && <text x={one.left * width + 4} y={one.level * 30 + 19} fill={inkOn(one.color)}>{text}</text>}</g>;
      })}
    </svg>, holder);
  return holder.firstElementChild as SVGSVGElement;
}

export function Icicle({ tree: all }: { tree: TimeNode }) {
  const [idle, setIdle] = useState(true);
  const tree = useMemo(() => (idle ? all : working(all)), [all, idle]);
  const [part, setPart] = useParam("part");
  const [path, found] = useMemo(() => follow(tree, part), [tree, part]);
  const setPath = (nodes: TimeNode[]) => setPart(placeOf(tree, nodes));
  const area = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // An address of another recording.
    if (part && !found) setPart(null, true);
  }, [part, found]);
  const selection = useSelection();
  const root = path[path.length - 1] ?? tree;
  const placed = useMemo(() => place(root, path), [root, path]);
  const levels = placed.reduce((most, one) => Math.max(most, one.level + 1), 1);
  if (!tree.time_ns) return <p class="about">Nothing ran on a GPU in this profile.</p>;
  return (
    <>
      <button type="button" class="idle" aria-pressed={!idle} onClick={() => {
        setIdle(!idle);
        setPath([]);
      }}>{idle ? "Hide idle" : "Show idle"}</button>
      <nav class="crumbs" aria-label="Shown part of the time">
        {[tree, ...path].map((one, at) => <button key={at} type="button" aria-current={at === path.length ? "true" : undefined} onClick={() => setPath(path.slice(0, at))}>{at ? one.name : "All time"} <span class="faint">{percent((100 * one.time_ns) / tree.time_ns)}</span></button>)}
      </nav>
      <div class="plot">
      <button type="button" class="png" aria-label="Where the time goes as PNG" onClick={() => area.current && void pngOf(svgOf(placed, area.current.clientWidth, levels * 30, getComputedStyle(area.current).getPropertyValue("--surface").trim()), "where-the-time-goes.png")}>PNG</button>
      <div class="icicle" ref={area} style={{ height: `${levels * 30}px` }}>
        {placed.map((one, at) => {
          const named = one.width >= NAMED;
          const text = `${one.node.name}: ${time(one.node.time_ns)}, ${percent((100 * one.node.time_ns) / tree.time_ns)}; ${counted(one.node.calls, one.node.kind === "idle" || one.node.kind === "cause" ? "gap" : "call")}`;
          return (
            <button key={at} type="button" title={text} aria-label={text} tabIndex={named ? 0 : -1} class={[named && "named", isOn(one.node, selection) && "on"].filter(Boolean).join(" ") || undefined}
              style={{ left: `${100 * one.left}%`, width: `${100 * one.width}%`, top: `${one.level * 30}px`, background: one.color, color: inkOn(one.color) }}
              onClick={() => {
                const what = chosenBy(one.node);
                if (what) toggle(what);
                if (one.node.children.length) setPath(one.path);
              }}>
              {named && (one.node.kind === "layer" && one.width < NARROW ? one.node.name.replace("layer ", "") : one.node.name)}
            </button>
          );
        })}
      </div>
      </div>
    </>
  );
}
