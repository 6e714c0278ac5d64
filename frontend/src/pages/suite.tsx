// The suite: operators with importance and roofline, and every shape of each; beside it what was measured.
import { useMemo } from "preact/hooks";
import { go, Link, useAddress } from "../address";
import { ask } from "../ask";
import { SuiteRoofline } from "../charts/roofline";
import { axesText, NONE, percent, printedIntensity } from "../format";
import { Bar, Breaking, Problem, Section } from "../parts";
import { Table, type Column } from "../table";
import type { Fastest, Measured, MeasuredShapes, Overview, ShapeRow, ShapesPage, SuitePage, RooflineRow } from "../types";

const REGIME: Record<string, string> = { C: "compute", M: "memory", I: "indexing" };
const USUAL = "H20,XPU-A,H200";
const DEPLOYED = "XPU-A";

export function SuiteView({ overview, operator }: { overview: Overview | null; operator: string | undefined }) {
  const { query } = useAddress();
  const chosen = query.get("hardware") ?? USUAL;
  const wanted = chosen.split(",").filter(Boolean);
  const asked = ask<SuitePage>(operator ? null : `/api/suite?hardware=${encodeURIComponent(chosen)}`);
  const page = asked.value;
  const to = (changes: Record<string, string>) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) next.set(name, value);
    go(`/suite${operator ? `/${operator}` : ""}?${next}`);
  };
  const toggle = (name: string, on: boolean) => to({ hardware: (on ? [...wanted, name] : wanted.filter((one) => one !== name)).join(",") });
  return (
    <>
      <h1>Operator suite</h1>
      <p class="about">30 production operators with 440 hot shapes; importance from 1,303 production profiles. T_SOL by the published formula for the middle shape, T_Prod of the deployed kernel on XPU-A{overview && overview.results.length > 0 ? "; what was measured here stands beside it, with S by the corrected bound, which is often below T_SOL" : ""}. Open an operator for every shape.</p>
      <fieldset class="hardware">
        <legend>Hardware</legend>
        {overview?.hardware.map((name) => <label key={name}><input type="checkbox" checked={wanted.includes(name)} disabled={wanted.length === 1 && wanted[0] === name} onChange={(event) => toggle(name, event.currentTarget.checked)} /> {name}</label>)}
      </fieldset>
      {asked.error && <Problem text={asked.error} />}
      {operator && <Section id="shapes" title={operator} about={<Link to={`/suite?${query}`}>All operators</Link>}><Shapes operator={operator} hardware={wanted} /></Section>}
      {page && !operator && <Operators page={page} />}
      {page && !operator && <Roofs page={page} roof={query.get("roof")} pick={(roof) => to({ roof })} />}
    </>
  );
}

function Operators({ page }: { page: SuitePage }) {
  const columns = useMemo<Column<RooflineRow>[]>(() => [
    { id: "operator", title: "Operator", text: true, long: true, value: (row) => row.operator, show: (row) => <><Breaking text={row.operator} /> <span class="faint small">{row.id}</span></> },
    { id: "dtype", spare: 9, title: "dtype", text: true, tight: true, value: (row) => row.dtype },
    { id: "shapes", spare: 6, title: "Shapes", value: (row) => row.shapes },
    { id: "importance", title: "Importance", help: "Share of GPU time as published; the published shares add up to 109.5 %", value: (row) => row.importance_pct, show: (row) => <span class="with-bar">{percent(row.importance_pct)}<Bar share={row.importance_pct} /></span> },
    { id: "regime", spare: 7, title: "Regime", text: true, tight: true, value: (row) => row.regime, show: (row) => <abbr title={REGIME[row.regime]}>{row.regime}</abbr> },
    { id: "ai", spare: 8, title: "AI", help: "FLOP per byte", value: (row) => row.intensity, show: (row) => printedIntensity(row.intensity) },
    ...page.hardware.map((name): Column<RooflineRow> => ({ id: `sol-${name}`, spare: 5, title: `T_SOL ${name}`, value: (row) => row.sol_us[name], time: "us", decimals: 2 })),
    { id: "prod", spare: 3, title: "T_Prod XPU-A", value: (row) => row.prod_us, time: "us", decimals: 0 },
    { id: "s", title: "S XPU-A", help: "T_SOL / T_Prod, median over the shapes, as published", value: (row) => page.median_s_pct[row.operator], show: (row) => percent(page.median_s_pct[row.operator]) },
    ...page.measured.flatMap((one) => measuredColumns(one)),
  ], [page]);
  return (
    <Section id="suite" title="Operators" about="Regime as published: C is compute-bound, M memory-bound, I index-bound. AI is arithmetic intensity (FLOP per byte). S is T_SOL / T_Prod; 100 % is the limit of the hardware. Times are for the middle shape, S is over all shapes.">
      <Table caption="Operators of the suite" columns={columns} rows={page.operators} sort={{ id: "importance", down: true }} search={(row) => `${row.operator} ${row.id} ${row.dtype}`} detail={(row) => <Shapes operator={row.operator} hardware={page.hardware} />} />
    </Section>
  );
}

/** Best time on the middle shape, whose it is, and S over all shapes. */
function measuredColumns({ device, operators, hardware }: Measured): Column<RooflineRow>[] {
  const name = hardware ?? device;
  return [
    { id: `best-${device}`, spare: 2, title: `Best ${name}`, help: `Fastest correct solution for the middle shape, measured on ${device}`, value: (row) => operators[row.operator]?.middle?.median_us, time: "us", decimals: 2, show: (row, text) => <Best fastest={operators[row.operator]?.middle} text={text} /> },
    { id: `s-${device}`, title: `S ${name}`, help: `Bound / best time on ${device}, over all shapes; those that did not pass count as 0`, value: (row) => operators[row.operator]?.s_pct, show: (row) => percent(operators[row.operator]?.s_pct) },
  ];
}

/** A time and whose it is. */
const Best = ({ fastest, text }: { fastest: Fastest | null | undefined; text: string }) => (fastest ? <>{text}<span class="faint small block">{fastest.solution}</span></> : <>{NONE}</>);

/** The roofs of one GPU at a time, and every operator under them. */
function Roofs({ page, roof, pick }: { page: SuitePage; roof: string | null; pick: (roof: string) => void }) {
  // Ticking another GPU leaves the chart where it is: on the one with the most to show.
  const measuredOn = (name: string): boolean => page.measured.some((one) => one.hardware === name);
  const roofs = page.roofs.find((one) => one.name === roof) ?? page.roofs.find((one) => measuredOn(one.name)) ?? page.roofs.find((one) => one.name === DEPLOYED) ?? page.roofs[0];
  const rows = useMemo(() => page.operators.map((row) => {
    const here = page.measured.find((one) => one.hardware === roofs?.name)?.operators[row.operator]?.middle;
    const deployed = roofs?.name === DEPLOYED;
    return {
      ...row, flop: page.flop[row.operator] ?? 0, sol_us: row.sol_us[roofs?.name ?? ""] ?? null,
      time_us: here?.median_us ?? (deployed ? row.prod_us : null), who: here?.solution ?? "deployed kernel",
    };
  }), [page, roofs]);
  if (!roofs) return null;
  const drawn = rows.filter((row) => row.flop > 0).length;
  const measured = rows.filter((row) => row.flop > 0 && row.time_us).length;
  return (
    <Section id="roofline" title="Roofline" about={<>The middle shape of each operator; larger points are more important. Hollow: the limit of {roofs.title} by the published formula. Filled: measured{measured ? ` (${measured} of ${drawn} on this GPU)` : "; nothing was measured on this GPU"}.{drawn < rows.length && ` ${rows.length - drawn} operators without FLOP are not drawn.`}</>}>
      <div class="choice" role="group" aria-label="Roofs of">
        {page.roofs.map((one) => <button key={one.name} type="button" aria-pressed={one.name === roofs.name} onClick={() => pick(one.name)}>{one.name}</button>)}
      </div>
      <SuiteRoofline rows={rows} roofs={roofs} />
    </Section>
  );
}

function Shapes({ operator, hardware }: { operator: string; hardware: string[] }) {
  const asked = ask<ShapesPage>(`/api/suite/${encodeURIComponent(operator)}?hardware=${encodeURIComponent(hardware.join(","))}`);
  const measured = asked.value?.measured ?? [];
  const columns = useMemo<Column<ShapeRow>[]>(() => [
    { id: "id", title: "#", value: (row) => row.id },
    { id: "what", title: "Shape", text: true, long: true, value: (row) => row.description, show: (row) => <span title={axesText(row.axes)}>{row.description}</span> },
    ...(asked.value?.hardware ?? []).map((name): Column<ShapeRow> => ({ id: `sol-${name}`, spare: 5, title: `T_SOL ${name}`, value: (row) => row.sol_us[name], time: "us", decimals: 2 })),
    { id: "prod", spare: 3, title: "T_Prod XPU-A", value: (row) => row.prod_us, time: "us", decimals: 1 },
    { id: "s", title: "S XPU-A", help: "T_SOL / T_Prod on XPU-A, as published", value: (row) => row.s_pct, show: (row) => <span class="with-bar">{percent(row.s_pct)}<Bar share={row.s_pct} /></span> },
    ...measured.flatMap(shapeColumns),
  ], [asked.value]);
  if (asked.error) return <Problem text={asked.error} />;
  return asked.value ? <Table caption={`Shapes of ${operator}`} columns={columns} rows={asked.value.shapes} most={100} /> : <p class="faint">Reading…</p>;
}

function shapeColumns({ device, shapes }: MeasuredShapes): Column<ShapeRow>[] {
  const name = device.replace(/^NVIDIA |^AMD (Instinct )?/, "");
  return [
    { id: `best-${device}`, spare: 2, title: `Best ${name}`, help: `Fastest correct solution, measured on ${device}`, value: (row) => shapes[row.id]?.median_us, time: "us", decimals: 2, show: (row, text) => <Best fastest={shapes[row.id]} text={text} /> },
    { id: `s-${device}`, title: `S ${name}`, help: `Bound / best time on ${device}`, value: (row) => shapes[row.id]?.s_pct, show: (row) => percent(shapes[row.id]?.s_pct) },
  ];
}
