// Rows and columns of cells, the darker the more: how values differ along a row, at one glance.
import { Chart, mark, widthOf, type Frame } from "../chart";
import { blend, inkOn } from "../colors";
import { shorten } from "../format";

export interface HeatCell {
  /** From 0 to 1: how dark. */
  share: number;
  /** Written into the cell, where there is room. */
  text?: string;
  tip: string[];
  on?: boolean;
  pick?: () => void;
}

export interface HeatRow { name: string; color: string; note: string; cells: (HeatCell | null | undefined)[] }

interface Props { label: string; rows: HeatRow[]; columns: string[]; noteTitle: string; /** Height of a row. */ tall?: number }

/** Widths of columns below which only the first and the last have a name. */
const NAMED = 30;
const FAINTEST = 0.08;

export function HeatMap({ label, rows, columns, noteTitle, tall = 18 }: Props) {
  const names = (narrow: boolean) => rows.map((row) => shorten(row.name, narrow ? 14 : 28));
  const draw = ({ width, ink, narrow }: Frame) => {
    const titles = names(narrow);
    const left = 10 + Math.max(...titles.map((name) => widthOf(name, 12)));
    const right = width - 12 - Math.max(widthOf(noteTitle, 11), ...rows.map((row) => widthOf(row.note, 11)));
    const wide = (right - left) / Math.max(1, columns.length);
    const head = wide >= NAMED;
    return (
      <>
        {columns.map((name, at) => (head || at === 0 || at === columns.length - 1) && (
          <text key={at} x={head ? left + (at + 0.5) * wide : at ? right : left} y={12} text-anchor={head ? "middle" : at ? "end" : "start"} fill={ink.faint}>{head ? shorten(name, Math.max(3, Math.floor(wide / 6.6))) : name}</text>
        ))}
        <text x={width} y={12} text-anchor="end" fill={ink.faint}>{noteTitle}</text>
        {rows.map((row, line) => {
          const top = 18 + line * tall;
          return (
            <g key={line}>
              <text x={left - 8} y={top + tall / 2 + 3} font-size="12" text-anchor="end" fill={ink.text}>{titles[line]}</text>
              {row.cells.map((cell, at) => {
                if (!cell) return null;
                const color = blend(row.color, ink.surface, FAINTEST + (1 - FAINTEST) * Math.max(0, Math.min(1, cell.share)));
                return (
                  <g key={at} class={cell.pick ? "pick cell" : "cell"} onClick={cell.pick} {...mark(...cell.tip)}>
                    <rect x={left + at * wide} y={top} width={Math.max(0.5, wide - (wide > 4 ? 1 : 0.2))} height={tall - 1} fill={color} stroke={cell.on ? ink.text : "none"} stroke-width="2" />
                    {cell.text && widthOf(cell.text, 11) < wide - 4 && <text x={left + (at + 0.5) * wide} y={top + tall / 2 + 3} text-anchor="middle" fill={inkOn(color)} data-on={color} pointer-events="none">{cell.text}</text>}
                  </g>
                );
              })}
              <text x={width} y={top + tall / 2 + 3} text-anchor="end" fill={ink.faint}>{row.note}</text>
            </g>
          );
        })}
      </>
    );
  };
  return <div class="heat"><Chart label={label} height={20 + rows.length * tall} draw={draw} /></div>;
}
