// Where the time goes: nested areas, phase over layer over role over kernel; a click goes in.
import { useCallback } from "preact/hooks";
import { Chart, tip, tooltipOf, type Ink, type Option } from "../chart";
import { categoryColor } from "../colors";
import { number, percent, time } from "../format";
import type { TimeNode } from "../types";

interface Leaf { name: string; value: number; node: TimeNode; itemStyle?: { color: string }; children?: Leaf[] }

const leaf = (node: TimeNode): Leaf => ({
  name: node.name,
  value: node.time_ns,
  node,
  itemStyle: { color: categoryColor(node.category) },
  ...(node.children.length ? { children: node.children.map(leaf) } : {}),
});

export function TimeTree({ tree, depth }: { tree: TimeNode; depth: number }) {
  const option = useCallback(
    (ink: Ink, narrow: boolean): Option => {
      const border = (width: number) => ({ borderColor: ink.surface, borderWidth: width, gapWidth: 1 });
      const named = (params: { data: { node: TimeNode } }) => `${params.data.node.name}  ${percent((100 * params.data.node.time_ns) / tree.time_ns)}`;
      const head = { show: true, height: 20, padding: [0, 4], color: ink.text, overflow: "truncate", ellipsis: "…", fontSize: 12, formatter: named };
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
          label: { show: true, minMargin: 2, formatter: (params: { data: { node: TimeNode } }) => `${params.data.node.name}\n${percent((100 * params.data.node.time_ns) / tree.time_ns)}`, overflow: "truncate", ellipsis: "…", fontSize: 11, lineHeight: 14, color: "#fff", textBorderColor: "rgba(0,0,0,.6)", textBorderWidth: 2 },
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
