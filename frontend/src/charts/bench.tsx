// The benchmark as pictures: who reaches what, how much of the time that is, and what each shape takes.
import { Chart, mark, widthOf, type Frame } from "../chart";
import { BETTER, blend, HUE_LIST, SIDES, WORSE } from "../colors";
import { axesText, number, percent, shorten, signed, us } from "../format";
import type { BenchShape, Entry, OperatorContrast, OperatorScore } from "../types";
import { boxOf, Keys, lineOf, XAxis, YAxis } from "./axes";
import { HeatMap, type HeatRow } from "./heatmap";
import { linear, log } from "./scale";

const share = (value: number | null | undefined): string => percent(value == null ? value : 100 * value);

/** S of every solution on every operator, the most important operators first. */
export function SolutionHeat({ operators, entries, time }: { operators: OperatorScore[]; entries: Entry[]; time: string }) {
  const rows = [...operators].sort((a, b) => b.importance - a.importance).map((row): HeatRow => ({
    name: row.operator,
    color: SIDES[0] as string,
    note: share(row.importance),
    cells: entries.map((entry) => {
      const best = Math.max(...entries.map((one) => one.operators[row.operator] ?? 0));
      const s = entry.operators[row.operator];
      return s == null ? null : { share: s, text: (100 * s).toFixed(0), tip: [`${entry.solution} on ${row.operator}`, `S ${share(s)}`, `best of all ${share(row.s)}; ${share(row.importance)} of the ${time}`], on: s === best && s > 0 && entries.length > 1 };
    }),
  }));
  return <HeatMap label={`S of ${entries.length} solutions on ${rows.length} operators, in percent`} rows={rows} columns={entries.map((entry) => entry.solution)} noteTitle="importance" tall={22} />;
}

/** How strong what is above the bound is drawn, beside what the bound takes. */
const PALE = 0.35;
const ROW = 24;
/** Operators shown; the others are less. */
const MOST = 16;

/** Share of the time from which on it can be seen. */
const SEEN = 0.0005;

/** Shares of the time: `bound` is needed, `back` is above the bound, `missing` did not pass. */
interface Reached { name: string; bound: number; back: number; missing: number; tip: string[]; note: string }

/** One bar per operator, as long as its share of the time; that with most of it above the bound first. */
export function ReachedShare({ operators, time }: { operators: OperatorScore[]; time: string }) {
  const known = operators.filter((row) => row.s !== null && row.importance > 0).sort((a, b) => (b.recoverable ?? 0) - (a.recoverable ?? 0));
  if (!known.length) return null;
  const bars = known.slice(0, MOST).map((row): Reached => barOf(row, time));
  const rest = known.slice(MOST).map((row) => barOf(row, time));
  if (rest.length) {
    const sum = (of: (one: Reached) => number): number => rest.reduce((all, one) => all + of(one), 0);
    const back = sum((one) => one.back);
    bars.push({ name: `${rest.length} others`, bound: sum((one) => one.bound), back, missing: sum((one) => one.missing), tip: [`${rest.length} others`, `above the bound: ${share(back)} of the ${time}`], note: `${share(back)} above the bound` });
  }
  const most = Math.max(...bars.map((one) => one.bound + one.back + one.missing));
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const names = bars.map((one) => shorten(one.name, narrow ? 16 : 34));
    const notes = bars.map((one) => (narrow ? (one.note.split(",")[0] as string).replace(" above the bound", "") : one.note));
    const box = boxOf(frame, 14 + Math.max(...names.map((name) => widthOf(name, 12))), 16 + Math.max(...notes.map((note) => widthOf(note, 12))), 22, 44);
    const x = linear(0, 100 * most, [box.left, box.right]);
    const pale = blend(SIDES[0] as string, ink.surface, PALE);
    const keys = [{ name: "least time", color: SIDES[0] as string }, { name: "above the bound", color: pale }, ...(bars.some((one) => one.missing >= SEEN) ? [{ name: "did not pass", color: ink.line }] : [])];
    return (
      <>
        <Keys keys={keys} x={box.left} y={13} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title={`% of the ${time}`} format={(value) => `${number(value)} %`} lines />
        {bars.map((one, at) => {
          const top = box.top + 2 + at * ROW;
          let left = x(0);
          return (
            <g key={one.name} {...mark(...one.tip)}>
              <rect x={0} y={top} width={frame.width} height={ROW} fill="transparent" />
              <text x={box.left - 8} y={top + 15} font-size="12" text-anchor="end" fill={ink.text}>{names[at]}</text>
              {([[one.bound, SIDES[0]], [one.back, pale], [one.missing, ink.line]] as [number, string][]).map(([part, color], index) => {
                const wide = x(100 * part) - x(0);
                left += wide;
                return wide > 0 && <rect key={index} x={left - wide} y={top + 3} width={Math.max(0.5, wide)} height={ROW - 7} fill={color} />;
              })}
              <text x={left + 6} y={top + 15} font-size="12" fill={ink.text}>{notes[at]}</text>
            </g>
          );
        })}
      </>
    );
  };
  return <Chart label={`What ${known.length} operators take of the ${time}, and how much of it is above the bound`} height={72 + bars.length * ROW} draw={draw} />;
}

function barOf(row: OperatorScore, time: string): Reached {
  const [bound, back] = [row.importance * (row.s ?? 0), row.recoverable ?? 0];
  return {
    name: row.operator, bound, back, missing: row.importance * Math.max(0, 1 - row.covered_weight),
    tip: [row.operator, `S ${share(row.s)}; ${share(row.importance)} of the ${time}`, `above the bound: ${share(row.recoverable)} of the ${time}`],
    note: `${share(back)} above the bound, S ${percent(100 * (row.s ?? 0), 0)}`,
  };
}

/** Times of all solutions on the shapes of one operator, with the bound of each shape. */
export function ShapeTimes({ rows }: { rows: BenchShape[] }) {
  const timed = rows.filter((row) => row.median_us && row.status === "passed");
  const solutions = [...new Set(timed.map((row) => row.solution))];
  const key = (row: BenchShape) => row.bound_us ?? row.published_us ?? row.median_us ?? 0;
  const shapes = [...new Map([...timed].sort((a, b) => key(a) - key(b)).map((row) => [row.shape, row])).values()];
  if (shapes.length < 2) return null;
  const place = new Map(shapes.map((row, at) => [row.shape, at]));
  const color = (solution: string) => HUE_LIST[solutions.indexOf(solution) % HUE_LIST.length] as string;
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 60, 14, 30, 40);
    const x = linear(-0.5, shapes.length - 0.5, [box.left, box.right]);
    const all = [...timed.map((row) => row.median_us as number), ...shapes.flatMap((row) => row.bound_us ?? [])];
    const y = log(10 ** Math.floor(Math.log10(Math.min(...all))), 10 ** Math.ceil(Math.log10(Math.max(...all))), [box.bottom, box.top]);
    return (
      <>
        <Keys keys={[{ name: "T_SOL", color: ink.text }, ...solutions.map((name) => ({ name, color: color(name) }))]} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="shapes, in the order of their bounds" ticks={x.ticks.filter((at) => Number.isInteger(at) && shapes[at])} format={(at) => `#${shapes[at]?.shape}`} />
        <YAxis scale={y} box={box} ink={ink} title="µs" />
        <path d={lineOf(shapes.map((row, at) => (row.bound_us ? [x(at), y(row.bound_us)] : null)))} fill="none" stroke={ink.text} stroke-width="1.5" />
        {timed.map((row, at) => <circle key={at} cx={x(place.get(row.shape) ?? 0)} cy={y(row.median_us as number)} r="3.5" fill={color(row.solution)} fill-opacity="0.85" {...mark(`#${row.shape} ${row.solution}: ${us(row.median_us)}`, `bound ${us(row.bound_us)}, S ${share(row.s)}`, shorten(axesText(row.axes), 120))} />)}
      </>
    );
  };
  return <Chart label={`Times of ${solutions.length} solutions on ${shapes.length} shapes, with the bound`} height={260} draw={draw} />;
}

/** How each operator changes the time from A to B, in percent of all of A's time. */
export function Diverging({ operators, a, b }: { operators: OperatorContrast[]; a: string; b: string }) {
  const rows = operators.slice(0, MOST);
  const most = Math.max(...rows.map((row) => Math.abs(row.change_pct)), 1e-9);
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const names = rows.map((row) => shorten(row.operator, narrow ? 16 : 30));
    const box = boxOf(frame, 12 + Math.max(...names.map((name) => widthOf(name, 12))), 62, 16, 44);
    const x = linear(-most, most, [box.left + 56, box.right]);
    return (
      <>
        <text x={x(0) - 8} y={11} text-anchor="end" fill={ink.faint}>{`← ${shorten(b, 24)} faster`}</text>
        <text x={x(0) + 8} y={11} fill={ink.faint}>{`${shorten(b, 24)} slower →`}</text>
        <XAxis scale={x} box={box} ink={ink} title={`% of ${shorten(a, 24)}'s time, weighted by importance`} lines format={(value) => number(value)} />
        {rows.map((row, at) => {
          const [top, end] = [box.top + 2 + at * ROW, x(row.change_pct)];
          const text = `${signed(row.change_pct, (value) => value.toFixed(value < 0.1 ? 2 : 1))} %`;
          return (
            <g key={row.operator} {...mark(row.operator, `${row.ratio.toFixed(3)} of the time, ${percent(row.share_pct)} of all`, `faster on ${row.faster}, slower on ${row.slower} of ${row.shapes} shapes`)}>
              <rect x="0" y={top} width={frame.width} height={ROW} fill="transparent" />
              <text x={box.left - 6} y={top + 15} font-size="12" text-anchor="end" fill={ink.text}>{names[at]}</text>
              <rect x={Math.min(x(0), end)} y={top + 3} width={Math.max(1, Math.abs(end - x(0)))} height={ROW - 7} fill={row.change_pct > 0 ? WORSE : BETTER} />
              <text x={row.change_pct > 0 ? end + 5 : end - 5} y={top + 15} text-anchor={row.change_pct > 0 ? "start" : "end"} fill={ink.text}>{text}</text>
            </g>
          );
        })}
        <line x1={x(0)} x2={x(0)} y1={box.top} y2={box.bottom} stroke={ink.faint} />
      </>
    );
  };
  return (
    <>
      <Chart label={`What each operator changes from ${a} to ${b}`} height={64 + rows.length * ROW} draw={draw} />
      {operators.length > MOST && <p class="about">{operators.length - MOST} operators that change less are left out.</p>}
    </>
  );
}
