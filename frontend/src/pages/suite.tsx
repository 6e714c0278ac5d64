// The suite: operators with importance and roofline, and every shape of each.
import { useMemo } from "preact/hooks";
import { go, useAddress } from "../address";
import { ask } from "../ask";
import { axesText, number, percent, us } from "../format";
import { Bar, Section } from "../parts";
import { Table, type Column } from "../table";
import type { Overview, ShapeRow, ShapesPage, SuitePage, SuiteRow } from "../types";

const REGIME: Record<string, string> = { C: "compute", M: "memory", I: "indexing" };

export function SuiteView({ overview, operator }: { overview: Overview | null; operator: string | undefined }) {
  const { query } = useAddress();
  const chosen = query.get("hardware") ?? "H20,XPU-A,H200";
  const wanted = chosen.split(",").filter(Boolean);
  const asked = ask<SuitePage>(`/api/suite?hardware=${encodeURIComponent(chosen)}`);
  const names = asked.value?.hardware ?? [];
  const columns = useMemo<Column<SuiteRow>[]>(() => [
    { id: "operator", title: "Operator", text: true, long: true, value: (row) => row.operator, show: (row) => <>{row.operator} <span class="faint">{row.id}</span></> },
    { id: "dtype", title: "dtype", text: true, value: (row) => row.dtype, spare: true },
    { id: "shapes", title: "Shapes", value: (row) => row.shapes },
    { id: "importance", title: "Importance", help: "Share of GPU time as published; all together 109.5 %", value: (row) => row.importance_pct, show: (row) => <span class="with-bar">{percent(row.importance_pct)}<Bar share={row.importance_pct} /></span> },
    { id: "regime", title: "Regime", text: true, value: (row) => row.regime, show: (row) => <abbr title={REGIME[row.regime]}>{row.regime}</abbr>, spare: true },
    { id: "ai", title: "AI", help: "FLOP per byte", value: (row) => row.intensity, show: (row) => number(row.intensity), spare: true },
    ...names.map((name): Column<SuiteRow> => ({ id: `sol-${name}`, title: `T_SOL ${name}`, value: (row) => row.sol_us[name], show: (row) => us(row.sol_us[name]) })),
    { id: "prod", title: "T_Prod XPU-A", value: (row) => row.prod_us, show: (row) => us(row.prod_us) },
  ], [names.join()]);
  const toggle = (name: string, on: boolean) => {
    const next = on ? [...wanted, name] : wanted.filter((one) => one !== name);
    go(`/suite${operator ? `/${operator}` : ""}?hardware=${encodeURIComponent(next.join(","))}`);
  };
  return (
    <>
      <h1>Operator suite</h1>
      <p class="about">30 production operators with 440 hot shapes; importance from 1,303 production profiles. T_SOL by the published formula for the middle shape, T_Prod of the deployed kernel on XPU-A. Open an operator for every shape.</p>
      <fieldset class="hardware">
        <legend>Hardware</legend>
        {overview?.hardware.map((name) => <label key={name}><input type="checkbox" checked={wanted.includes(name)} disabled={wanted.length === 1 && wanted[0] === name} onChange={(event) => toggle(name, event.currentTarget.checked)} /> {name}</label>)}
      </fieldset>
      {asked.error && <p role="alert" class="warnings plain">{asked.error}</p>}
      {asked.value && (
        <Section id="suite" title="Operators">
          <Table caption="Operators of the suite" columns={columns} rows={asked.value.operators} sort={{ id: "importance", down: true }} search={(row) => `${row.operator} ${row.id} ${row.dtype}`} detail={(row) => <Shapes operator={row.operator} hardware={names} />} />
        </Section>
      )}
      {operator && <Section id="shapes" title={operator}><Shapes operator={operator} hardware={names} /></Section>}
    </>
  );
}

function Shapes({ operator, hardware }: { operator: string; hardware: string[] }) {
  const asked = ask<ShapesPage>(hardware.length ? `/api/suite/${encodeURIComponent(operator)}?hardware=${encodeURIComponent(hardware.join(","))}` : null);
  const columns = useMemo<Column<ShapeRow>[]>(() => [
    { id: "id", title: "#", value: (row) => row.id },
    { id: "what", title: "Shape", text: true, long: true, value: (row) => row.description, show: (row) => <span title={axesText(row.axes)}>{row.description}</span> },
    ...hardware.map((name): Column<ShapeRow> => ({ id: `sol-${name}`, title: `T_SOL ${name}`, value: (row) => row.sol_us[name], show: (row) => us(row.sol_us[name]) })),
    { id: "prod", title: "T_Prod XPU-A", value: (row) => row.prod_us, show: (row) => us(row.prod_us) },
    { id: "s", title: "S", help: "T_SOL / T_Prod on XPU-A, as published", value: (row) => row.s_pct, show: (row) => <span class="with-bar">{percent(row.s_pct)}<Bar share={row.s_pct} /></span> },
  ], [hardware.join()]);
  if (asked.error) return <p role="alert">{asked.error}</p>;
  return asked.value ? <Table caption={`Shapes of ${operator}`} columns={columns} rows={asked.value.shapes} most={100} /> : <p class="faint">Reading…</p>;
}
