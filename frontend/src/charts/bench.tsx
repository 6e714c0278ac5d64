// The benchmark as pictures: who reaches what, how much of production's time that is, and what each shape takes.
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
      return s == null ? null : { share: s, text: (100 * s).toFixed(0), tip: [`${entry.solution} on ${row.operator}`, `S ${share(s)}`, `best of all ${share(row.s)}; ${share(row.importance)} of ${time}`], on: s === best && s > 0 && entries.length > 1 };
    }),
  }));
  return <HeatMap label={`S of ${entries.length} solutions on ${rows.length} operators, in percent`} rows={rows} columns={entries.map((entry) => entry.solution)} noteTitle="importance" tall={22} />;
}

/** How dark a bar is: text in the ink of the page can be read on it and beside it. */
const PALE = 0.35;
/** Bars that are narrower have no name. */
const NAMED = 12;

/** One bar per operator, as wide as its share of the time and as high as S: what is above it can be recovered. */
export function ReachedShare({ operators, time }: { operators: OperatorScore[]; time: string }) {
  const known = operators.filter((row) => row.s !== null && row.importance > 0).sort((a, b) => (b.s ?? 0) - (a.s ?? 0));
  if (!known.length) return null;
  const covered = known.reduce((sum, row) => sum + row.importance, 0);
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 10, 46);
    const x = linear(0, 100, [box.left, box.right]);
    const y = linear(0, 100, [box.bottom, box.top]);
    const fill = blend(SIDES[0] as string, ink.surface, PALE);
    let at = 0;
    const bars = known.map((row) => {
      const [left, right, top] = [x(at), x(at + 100 * row.importance), y(100 * (row.s ?? 0))];
      at += 100 * row.importance;
      return { row, left, right, top };
    });
    return (
      <>
        <XAxis scale={x} box={box} ink={ink} title={`% of ${time}, operators from the closest to the limit to the farthest`} format={(value) => `${value} %`} />
        <YAxis scale={y} box={box} ink={ink} title="S: bound / measured time" format={(value) => `${value} %`} />
        {bars.map(({ row, left, right, top }) => {
          const text = [`${row.operator} ${percent(100 * (row.s ?? 0), 0)}`, row.operator].find((one) => widthOf(one, 11) < right - left - 6);
          // Upright in the bar, else above it, else from its foot across its top.
          const name = shorten(row.operator, Math.floor((box.bottom - box.top - 12) / 6.2));
          const above = widthOf(name, 11) > box.bottom - top - 10 && widthOf(name, 11) < top - box.top - 6;
          return (
            <g key={row.operator} {...mark(row.operator, `S ${share(row.s)}; ${share(row.importance)} of ${time}`, `recoverable: ${share(row.recoverable)} of ${time}`)}>
              <rect x={left} y={box.top} width={Math.max(0.5, right - left)} height={box.bottom - box.top} fill="transparent" />
              <rect x={left} y={top} width={Math.max(0.5, right - left - 0.7)} height={box.bottom - top} fill={fill} />
              <rect x={left} y={top - 1} width={Math.max(0.5, right - left - 0.7)} height="2" fill={SIDES[0]} />
              {text ? <text x={(left + right) / 2} y={Math.min(top + 15, box.bottom - 5)} text-anchor="middle" fill={ink.text} data-on={fill}>{text}</text>
                : right - left >= NAMED && <text transform={`translate(${(left + right) / 2 + 4} ${above ? top - 6 : box.bottom - 6}) rotate(-90)`} fill={ink.text} data-on={above ? ink.surface : fill}>{name}</text>}
            </g>
          );
        })}
        {covered < 0.995 && <rect x={x(100 * covered)} y={box.top} width={x(100) - x(100 * covered)} height={box.bottom - box.top} fill={ink.line} fill-opacity="0.5" {...mark("not measured", `${share(1 - covered)} of ${time}`)} />}
      </>
    );
  };
  return <Chart label={`S of ${known.length} operators against their share of ${time}`} height={300} draw={draw} />;
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

const ROW = 24;
/** Operators shown; the others change little. */
const MOST = 16;

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
