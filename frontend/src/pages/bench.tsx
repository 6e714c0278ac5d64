// Results of the benchmark: who is fastest, how far from the limit, and how sure.
import { useMemo } from "preact/hooks";
import { Chart, mark, type Frame } from "../chart";
import { ReachedShare, ShapeTimes, SolutionHeat } from "../charts/bench";
import { boxOf, XAxis, YAxis } from "../charts/axes";
import { linear } from "../charts/scale";
import { SIDES } from "../colors";
import { axesText, NONE, number, percent, shorten, us } from "../format";
import { Bar, Begin, Facts, Section, Word } from "../parts";
import { Table, type Column } from "../table";
import type { BenchPage, BenchShape, Entry, OperatorScore } from "../types";

const share = (value: number | null | undefined, digits = 1) => percent(value == null ? value : 100 * value, digits);

export function BenchView({ page }: { page: BenchPage }) {
  const { leaderboard, machine } = page;
  const { best } = leaderboard;
  const operators = useMemo<Column<OperatorScore>[]>(() => [
    { id: "operator", title: "Operator", text: true, long: true, value: (row) => row.operator },
    { id: "importance", title: "Importance", help: `Share of the ${page.time}`, value: (row) => row.importance, show: (row) => share(row.importance) },
    { id: "bound", spare: 6, title: "Bound", help: "The least time that the rates of the GPU allow, mean over calls", value: (row) => row.bound_us, time: "us" },
    { id: "time", spare: 3, title: "Best", help: "Time of the fastest correct solutions, mean over calls", value: (row) => row.median_us, time: "us" },
    { id: "who", spare: 8, title: "Who", help: "Solutions, and the shapes on which each is the fastest", text: true, value: (row) => Object.entries(row.best).sort((a, b) => b[1] - a[1]).map(([name, wins]) => `${name} ${wins}`).join(", ") },
    { id: "s", title: "S", help: "Bound / time, shapes by their weight; those that did not pass count as 0", value: (row) => row.s, show: (row) => <span class="with-bar">{share(row.s)}<Bar share={100 * (row.s ?? 0)} /></span> },
    { id: "published", spare: 7, title: "S, published bound", help: "By the bound that the public suite states, which is not always a lower bound", value: (row) => row.published_s, show: (row) => share(row.published_s) },
    ...(Object.keys(page.production_s).length ? [{ id: "xpu", spare: 2, title: "S of XPU-A", help: "Deployed kernels on XPU-A, median shape, as published", value: (row: OperatorScore) => page.production_s[row.operator], show: (row: OperatorScore) => share(page.production_s[row.operator]) }] : []),
    { id: "back", spare: 4, title: "Above the bound", help: `What calls take beyond their bounds, of the ${page.time}: the most that faster kernels can save`, value: (row) => row.recoverable, show: (row) => share(row.recoverable) },
    { id: "shapes", spare: 5, title: "Shapes", value: (row) => row.shapes_passed, show: (row) => `${row.shapes_passed} of ${row.shapes}` },
  ], [page]);
  return (
    <>
      <Begin headline={page.headline} severity={page.headline.severity} />
      <Section id="reached" title="Where the time is, and how much of it is above the bound" about={`One bar per operator, as long as its share of the ${page.time}: first the least time by the bound, then what the best solutions take beyond it. Those with most of that first.`}>
        <ReachedShare operators={best.operators} time={page.time} />
      </Section>
      <Section id="solutions" title="Who reaches what" about="S of every solution on every operator, in percent; the most important operators first, the best solution of each outlined. Empty: nothing passed.">
        <SolutionHeat operators={best.operators} entries={leaderboard.entries} time={page.time} />
      </Section>
      <Section id="score" title="Score" about={`Operators count by importance, their share of the ${page.time}; shapes by their weight in it.`}>
        <Facts facts={[
          ["GPU", leaderboard.device],
          ["Suite", leaderboard.suite],
          ["Method", <Word key="method" text={leaderboard.method} />],
          [`Measured, of the ${page.time}`, share(best.covered)],
          ["Date", machine.time ? machine.time.replace("T", " ").slice(0, 16) : NONE],
        ]} />
        {machine.versions && <p class="about">{Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`).join(", ")}</p>}
        {page.runs > 1 && machine.command && <p class="about">{number(page.runs)} runs; the newest:</p>}
        {machine.command && <p class="command"><code>{machine.command}</code></p>}
      </Section>
      <Section id="leaderboard" title="Solutions">
        <Table caption="Solutions" columns={ENTRIES} rows={leaderboard.entries} />
      </Section>
      <Section id="operators" title="Operators" about="The fastest correct solution per shape. Open an operator to see its shapes.">
        <Table caption="Operators" columns={operators} rows={best.operators} most={60} sort={{ id: "importance", down: true }} search={(row) => row.operator} detail={(row) => <Shapes page={page} operator={row.operator} />} />
      </Section>
    </>
  );
}

const ENTRIES: Column<Entry>[] = [
  { id: "solution", title: "Solution", text: true, value: (row) => row.solution },
  { id: "s", title: "S", help: "Over the whole suite; what did not pass counts as 0", value: (row) => row.weighted_s, show: (row) => <span class="with-bar">{share(row.weighted_s)}<Bar share={100 * (row.weighted_s ?? 0)} /></span> },
  { id: "covered", spare: 4, title: "Importance covered", help: "Share of the time in shapes that it passed", value: (row) => row.covered, show: (row) => share(row.covered) },
  { id: "wins", spare: 1, title: "Fastest on", value: (row) => row.wins, show: (row) => `${number(row.wins)} ${row.wins === 1 ? "shape" : "shapes"}` },
  { id: "passed", spare: 2, title: "Passed", value: (row) => row.shapes_passed },
  { id: "failed", spare: 3, title: "Failed", value: (row) => row.shapes_failed },
];

const SHAPES: Column<BenchShape>[] = [
  { id: "shape", title: "#", text: true, tight: true, value: (row) => row.shape },
  { id: "axes", spare: 9, title: "Axes", text: true, long: true, value: (row) => axesText(row.axes), show: (row) => <span class="axes">{shorten(axesText(row.axes), 80)}</span> },
  { id: "solution", title: "Solution", text: true, tight: true, value: (row) => row.solution },
  { id: "status", spare: 3, title: "Status", text: true, tight: true, value: (row) => row.status, show: (row) => <span title={row.reason ?? undefined}>{row.status.replaceAll("_", " ")}</span> },
  { id: "median", title: "Median", value: (row) => row.median_us, time: "us" },
  { id: "p20", spare: 7, title: "p20", value: (row) => row.p20_us, time: "us" },
  { id: "p80", spare: 7, title: "p80", value: (row) => row.p80_us, time: "us" },
  { id: "graph", spare: 8, title: "In a graph", value: (row) => row.graph_us, time: "us" },
  { id: "bound", spare: 4, title: "Bound", value: (row) => row.bound_us, time: "us" },
  { id: "limit", spare: 6, title: "Limited by", help: "What sets the bound", text: true, tight: true, value: (row) => row.limiter, show: (row) => <Word text={row.limiter} /> },
  { id: "s", title: "S", value: (row) => row.s, show: (row) => share(row.s) },
];

function Shapes({ page, operator }: { page: BenchPage; operator: string }) {
  const rows = useMemo(() => page.shapes.filter((row) => row.operator === operator), [page, operator]);
  return <><ShapeTimes rows={rows} /><Table caption={`Shapes of ${operator}`} columns={SHAPES} rows={rows} most={40} sort={{ id: "shape", down: false }} search={(row) => `${row.solution} ${row.status} ${axesText(row.axes)}`} detail={(row) => (row.samples.length ? <Samples row={row} /> : <p>{row.reason ?? "not timed"}</p>)} /></>;
}

/** Every sample of one result, in the order in which they were taken. */
function Samples({ row }: { row: BenchShape }) {
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 64, 12, 10, 24);
    const x = linear(1, row.samples.length, [box.left, box.right]);
    const y = linear(Math.min(...row.samples), Math.max(...row.samples), [box.bottom, box.top], true);
    return (
      <>
        <XAxis scale={x} box={box} ink={ink} ticks={x.ticks.filter(Number.isInteger)} />
        <YAxis scale={y} box={box} ink={ink} title="µs" format={(value) => number(value, 5)} />
        {row.samples.map((value, at) => <circle key={at} cx={x(at + 1)} cy={y(value)} r="2.5" fill={SIDES[0]} {...mark(`sample ${at + 1}: ${us(value)}`)} />)}
      </>
    );
  };
  return <Chart label={`${row.samples.length} samples of ${row.solution}`} height={150} draw={draw} />;
}
