// Where the time goes: nested areas, phase over layer over role over kernel; a click goes in.
import { useCallback, useState } from "preact/hooks";
import { Chart, tip, tooltipOf, widthOf, type Area, type Ink, type Option } from "../chart";
import { categoryColor } from "../colors";
import { counted, percent, shorten, time } from "../format";
import type { TimeNode } from "../types";

/** A node as ECharts has it: without the nodes below, which it would copy once per level; `at` leads to it. */
interface Leaf { name: string; value: number; calls: number; category: string | null; at: number[]; itemStyle: { color: string }; children?: Leaf[] }

const leaf = (node: TimeNode, at: number[]): Leaf => ({
  name: node.name,
  value: node.time_ns,
  calls: node.calls,
  category: node.category,
  at,
  itemStyle: { color: categoryColor(node.category) },
  ...(node.children.length ? { children: leaves(node, at) } : {}),
});

const leaves = (node: TimeNode, at: number[] = []): Leaf[] => node.children.map((child, index) => leaf(child, [...at, index]));

interface Labeled { dataIndex: number; data: Leaf }

const LEAF = { size: 11, line: 14 };
const HEAD = { size: 12, line: 20 };
/** Room around a label. */
const MARGIN = 12;
/** Letters below which what is left of a name tells nothing, and from which on both its ends are shown. */
const [LEAST, ENDS] = [8, 18];

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
function leafLabel(name: string, share: string, area: Area): string {
  const room = area.width - 2 * area.borderWidth - MARGIN;
  const text = readable(area.isLeafRoot ? `▶ ${name}` : name, room, LEAF.size);
  const lines = Math.floor((area.height - 2 * area.borderWidth - 2) / LEAF.line);
  if (!text || lines < 1) return "";
  return lines > 1 && widthOf(share, LEAF.size) <= room ? `${text}\n${share}` : text;
}

/** Name and share of what lies below, the share only beside a whole name. */
function headLabel(name: string, share: string, area: Area): string {
  const room = area.width - 2 * area.borderWidth - MARGIN;
  const both = `${name}  ${share}`;
  return widthOf(both, HEAD.size) <= room ? both : readable(name, room, HEAD.size);
}

/** The nodes that `at` leads through, as far as they have others below them. */
function follow(root: TimeNode, [first, ...rest]: number[]): TimeNode[] {
  const child = first === undefined ? undefined : root.children[first];
  return child?.children.length ? [child, ...follow(child, rest)] : [];
}

export function TimeTree({ tree, depth }: { tree: TimeNode; depth: number }) {
  const [path, setPath] = useState<TimeNode[]>([]);
  const root = path[path.length - 1] ?? tree;
  // Into what was clicked, or, for a kernel, into what it is part of.
  const enter = useCallback(({ data }: { data: unknown }) => {
    const at = (data as Leaf | null)?.at;
    if (at) setPath([...path, ...follow(root, at)]);
  }, [path, root]);
  const option = useCallback(
    (ink: Ink, narrow: boolean, areaOf: (dataIndex: number) => Area | undefined): Option => {
      const border = (width: number) => ({ borderColor: ink.surface, borderWidth: width, gapWidth: 1 });
      const labeled = (write: typeof leafLabel) => ({ dataIndex, data }: Labeled) => {
        const area = areaOf(dataIndex);
        return area ? write(data.name, percent((100 * data.value) / tree.time_ns), area) : "";
      };
      const head = { show: true, height: HEAD.line, padding: [0, 4], color: ink.text, fontSize: HEAD.size, formatter: labeled(headLabel) };
      return {
        tooltip: { ...tooltipOf(ink), formatter: ({ data }: { data?: Leaf }) => (data?.at ? tip(data.name, `${time(data.value)} · ${percent((100 * data.value) / tree.time_ns)} of GPU time`, `${counted(data.calls, "call")}${data.category ? ` · ${data.category}` : ""}`) : "") },
        series: [{
          type: "treemap",
          name: "GPU time",
          data: leaves(root),
          left: 0, right: 0, top: 0, bottom: 0,
          roam: false,
          leafDepth: depth - (narrow ? 1 : 0),
          nodeClick: false,
          breadcrumb: { show: false },
          drillDownIcon: "",
          label: { show: true, padding: 2, formatter: labeled(leafLabel), fontSize: LEAF.size, lineHeight: LEAF.line, color: "#fff", textBorderColor: "rgba(0,0,0,.6)", textBorderWidth: 2 },
          upperLabel: head,
          levels: [
            { itemStyle: border(0), upperLabel: { show: false } },
            { itemStyle: { ...border(2), borderColor: ink.line }, upperLabel: head },
            { itemStyle: { ...border(1), borderColor: ink.line }, upperLabel: head },
            { itemStyle: border(1) },
          ],
        }],
      };
    },
    [tree, root, depth],
  );
  if (!tree.time_ns) return <p class="about">Nothing ran on a GPU in this profile.</p>;
  return (
    <>
      <nav class="crumbs" aria-label="Shown part of the time">
        {[tree, ...path].map((one, at) => <button key={at} type="button" aria-current={at === path.length ? "true" : undefined} onClick={() => setPath(path.slice(0, at))}>{at ? one.name : "GPU time"} <span class="faint">{percent((100 * one.time_ns) / tree.time_ns)}</span></button>)}
      </nav>
      <Chart label="GPU time by phase, layer, role and kernel: larger areas take more time. The kernel table below has the same figures as text." height={410} option={option} onClick={enter} />
    </>
  );
}
