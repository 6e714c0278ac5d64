// Axes, legends and what else charts share.
import type { ComponentChildren } from "preact";
import { widthOf, type Frame, type Ink } from "../chart";
import { number, shorten } from "../format";
import type { Scale } from "./scale";

/** The edges of what an axis frames, in pixels of the chart. */
export interface Box { left: number; right: number; top: number; bottom: number; /** Of the chart. */ width: number }

export const boxOf = ({ width, height }: Frame, left: number, right: number, top: number, bottom: number): Box => ({ left, right: Math.max(left + 40, width - right), top, bottom: height - bottom, width });

interface Axis { scale: Scale; box: Box; ink: Ink; title?: string; format?: (value: number) => string; lines?: boolean; ticks?: number[] }

export function XAxis({ scale, box, ink, title, format = number, lines, ticks = scale.ticks }: Axis) {
  let last = -Infinity;
  return (
    <g>
      <line x1={box.left} x2={box.right} y1={box.bottom} y2={box.bottom} stroke={ink.line} />
      {ticks.map((value) => {
        const [x, text] = [scale(value), format(value)];
        const half = widthOf(text, 11) / 2;
        const middle = Math.min(x, box.width - half);
        const fits = middle - half > last + 6;
        if (fits) last = middle + half;
        return (
          <g key={value}>
            {lines && <line x1={x} x2={x} y1={box.top} y2={box.bottom} stroke={ink.line} stroke-opacity="0.6" />}
            <line x1={x} x2={x} y1={box.bottom} y2={box.bottom + 4} stroke={ink.line} />
            {fits && <text x={middle} y={box.bottom + 17} text-anchor="middle" fill={ink.faint}>{text}</text>}
          </g>
        );
      })}
      {title && <text x={(box.left + box.right) / 2} y={box.bottom + 34} text-anchor="middle" fill={ink.faint}>{fitted(title, 2 * Math.min((box.left + box.right) / 2, box.width - (box.left + box.right) / 2))}</text>}
    </g>
  );
}

/** A title, or its first part where all of it has no room. */
function fitted(title: string, room: number): string {
  const short = title.split(",")[0] as string;
  return [title, short].find((text) => widthOf(text, 11) <= room) ?? shorten(short, Math.max(4, Math.floor(room / 6.5)));
}

export function YAxis({ scale, box, ink, title, format = number, lines = true, ticks = scale.ticks }: Axis) {
  const middle = (box.top + box.bottom) / 2;
  return (
    <g>
      {ticks.map((value) => (
        <g key={value}>
          {lines && <line x1={box.left} x2={box.right} y1={scale(value)} y2={scale(value)} stroke={ink.line} stroke-opacity="0.6" />}
          <text x={box.left - 6} y={scale(value) + 4} text-anchor="end" fill={ink.faint}>{format(value)}</text>
        </g>
      ))}
      <line x1={box.left} x2={box.left} y1={box.top} y2={box.bottom} stroke={ink.line} />
      {title && <text transform={`translate(12 ${middle}) rotate(-90)`} text-anchor="middle" fill={ink.faint}>{title}</text>}
    </g>
  );
}

export interface Key { name: string; color: string; hollow?: boolean; diamond?: boolean; /** As the marks have it. */ opacity?: number }

/** What the colors mean, from the right edge to the left in one line, as far as there is room. */
export function Keys({ keys, x, y, ink, room }: { keys: Key[]; x: number; y: number; ink: Ink; room: number }) {
  const placed: ComponentChildren[] = [];
  let at = x;
  for (const key of keys) {
    const width = 18 + widthOf(key.name, 11) + 14;
    if (at + width > x + room && placed.length) break;
    placed.push(
      <g key={key.name} transform={`translate(${at} ${y})`}>
        {key.diamond ? <path d="M6 -9 L11 -4 L6 1 L1 -4 Z" fill={key.color} /> : <rect x="1" y="-9" width="10" height="10" rx="2" fill={key.hollow ? "none" : key.color} fill-opacity={key.opacity ?? 1} stroke={key.color} stroke-width={key.hollow ? 2 : 0} />}
        <text x="16" fill={ink.text}>{key.name}</text>
      </g>,
    );
    at += width;
  }
  return <g>{placed}</g>;
}

let clips = 0;
/** A name for a clip path that no other chart of the page has. */
export const newClip = (): string => `clip-${(clips += 1)}`;

export const Clip = ({ id, box }: { id: string; box: Box }) => <clipPath id={id}><rect x={box.left} y={box.top} width={box.right - box.left} height={box.bottom - box.top} /></clipPath>;

/** Points as a line; null breaks it. */
export function lineOf(points: ([number, number] | null)[]): string {
  let open = false;
  return points.map((point) => {
    if (!point) {
      open = false;
      return "";
    }
    const text = `${open ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    open = true;
    return text;
  }).join("");
}
