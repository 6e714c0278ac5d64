// Where the time goes: nested areas, phase over layer over role over kernel; a click goes in.
import { useCallback } from "preact/hooks";
import { Chart, tip, tooltipOf, widthOf, type Area, type Ink, type Option } from "../chart";
import { categoryColor } from "../colors";
import { number, percent, shorten, time } from "../format";
import type { TimeNode } from "../types";

interface Leaf { name: string; value: number; node: TimeNode; itemStyle?: { color: string }; children?: Leaf[] }

const leaf = (node: TimeNode): Leaf => ({
  name: node.name,
  value: node.time_ns,
  node,
  itemStyle: { color: categoryColor(node.category) },
  ...(node.children.length ? { children: node.children.map(leaf) } : {}),
});

interface Labeled { dataIndex: number; data: { node: TimeNode } }

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

export function TimeTree({ tree, depth }: { tree: TimeNode; depth: number }) {
  const option = useCallback(
    (ink: Ink, narrow: boolean, areaOf: (dataIndex: number) => Area | undefined): Option => {
      const border = (width: number) => ({ borderColor: ink.surface, borderWidth: width, gapWidth: 1 });
      const labeled = (write: typeof leafLabel) => ({ dataIndex, data: { node } }: Labeled) => {
        const area = areaOf(dataIndex);
        return area ? write(node.name, percent((100 * node.time_ns) / tree.time_ns), area) : "";
      };
      const head = { show: true, height: HEAD.line, padding: [0, 4], color: ink.text, fontSize: HEAD.size, formatter: labeled(headLabel) };
      return {
        tooltip: { ...tooltipOf(ink), formatter: (params: { data?: { node?: TimeNode } }) => {
          const node = params.data?.node;
          return node ? tip(node.name, `${time(node.time_ns)} · ${percent((100 * node.time_ns) / tree.time_ns)} of GPU time`, `${number(node.calls)} calls${node.category ? ` · ${node.category}` : ""}`) : "";
        } },
        series: [{
          type: "treemap",
          name: "GPU time",
          data: tree.children.map(leaf),
          left: 0, right: 0, top: 0, bottom: 30,
          roam: false,
          leafDepth: depth - (narrow ? 1 : 0),
          nodeClick: "zoomToNode",
          breadcrumb: { bottom: 0, height: 24, itemStyle: { color: ink.line, borderColor: ink.line, textStyle: { color: ink.text } }, emphasis: { itemStyle: { color: ink.line, textStyle: { color: ink.text } } } },
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
    [tree, depth],
  );
  if (!tree.time_ns) return <p class="about">Nothing ran on a GPU in this profile.</p>;
  return <Chart label="GPU time by phase, layer, role and kernel: the larger the area, the more time. The kernel table below has the same figures as text." height={440} option={option} />;
}
