// Steps along the time line: one bar per step, colored by phase, with the busy part filled. A drag zooms in.
import { useMemo, useRef, useState } from "preact/hooks";
import { Chart, mark, type Frame } from "../chart";
import { phaseColor } from "../colors";
import { ms, number, percent } from "../format";
import { useParam } from "../params";
import { toggle, useSelection } from "../selection";
import type { TimelineStep } from "../types";
import { boxOf, Clip, Keys, newClip, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

/** Pixels that a pointer may move and still click. */
const STILL = 5;

/** Steps to draw: cut ones not where they would take most of the axis, and nothing be seen of the others. */
export function drawnSteps(steps: TimelineStep[]): TimelineStep[] {
  const whole = steps.filter((step) => !step.cut);
  const length = (some: TimelineStep[]): number => some.reduce((sum, step) => sum + step.time_ms, 0);
  return whole.length > 1 && length(whole) < length(steps) / 2 ? whole : steps;
}

export function StepTimeline({ steps: all, span }: { steps: TimelineStep[]; span: number }) {
  const selection = useSelection();
  const steps = useMemo(() => drawnSteps(all), [all]);
  const clip = useMemo(newClip, []);
  const [zoomed, setZoomed] = useParam("steps");
  const zoom = zoomed === null ? null : (zoomed.split("-").map(Number) as [number, number]);
  const setZoom = (range: [number, number] | null) => setZoomed(range && range.map((at) => at.toFixed(3)).join("-"));
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const moved = useRef(false);
  const start = steps.length < all.length ? Math.min(...steps.map((step) => step.start_ms)) : 0;
  const end = steps.length < all.length ? Math.max(...steps.map((step) => step.start_ms + step.time_ms)) : span;
  const [from, to] = zoom && zoom.length === 2 && zoom[1] > zoom[0] ? zoom : [start, end];
  const phases = [...new Set(steps.map((step) => step.phase ?? "unknown"))];
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 30, 44);
    const shown = steps.filter((step) => step.start_ms + step.time_ms >= from && step.start_ms <= to);
    const x = linear(from, to, [box.left, box.right]);
    const y = linear(0, Math.max(...shown.map((step) => step.time_ms), 1e-6), [box.bottom, box.top], true);
    const timeAt = (event: PointerEvent) => {
      const { left } = (event.currentTarget as Element).getBoundingClientRect();
      return from + ((Math.max(box.left, Math.min(box.right, event.clientX - left)) - box.left) / (box.right - box.left)) * (to - from);
    };
    return (
      <g onPointerDown={(event: PointerEvent) => event.button === 0 && setDrag([timeAt(event), timeAt(event)])}
        onPointerMove={(event: PointerEvent) => drag && setDrag([drag[0], timeAt(event)])}
        onPointerUp={() => {
          moved.current = drag !== null && Math.abs(x(drag[1]) - x(drag[0])) > STILL;
          if (drag && moved.current) setZoom([Math.min(...drag), Math.max(...drag)]);
          setDrag(null);
        }}>
        <rect width={frame.width} height={frame.height} fill="transparent" />
        <Clip id={clip} box={box} />
        <Keys keys={phases.map((name) => ({ name, color: phaseColor(name === "unknown" ? null : name) }))} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="ms" />
        <YAxis scale={y} box={box} ink={ink} title="step ms" />
        <g clip-path={`url(#${clip})`}>
          {shown.map((step) => {
            const [left, color] = [x(step.start_ms), phaseColor(step.phase)];
            const width = Math.max(1, x(step.start_ms + step.time_ms) - left - 1);
            const on = selection.step === step.step;
            return (
              <g key={step.step} class="pick" onClick={() => !moved.current && toggle({ step: step.step })} {...mark(`${step.name} (step ${step.step}${step.cut ? ", cut" : ""})`, `${step.phase ?? "phase unknown"} · ${ms(step.time_ms)} · GPU busy ${percent((100 * step.busy_ms) / step.time_ms)}`, step.tokens !== null && `${number(step.tokens)} tokens, ${number(step.requests)} requests`)}>
                <rect x={left} y={y(step.time_ms)} width={width} height={box.bottom - y(step.time_ms)} fill={color} fill-opacity="0.28" stroke={on ? ink.text : "none"} stroke-width="2" />
                <rect x={left} y={y(step.busy_ms)} width={width} height={box.bottom - y(step.busy_ms)} fill={color} />
              </g>
            );
          })}
          {drag && <rect x={Math.min(x(drag[0]), x(drag[1]))} y={box.top} width={Math.abs(x(drag[1]) - x(drag[0]))} height={box.bottom - box.top} fill={ink.text} fill-opacity="0.12" pointer-events="none" />}
        </g>
      </g>
    );
  };
  return (
    <>
      <Chart label={`${steps.length} steps along time: height is the step's time, the solid part the time the GPU was busy`} height={250} draw={draw} />
      {zoom && <p class="about"><button type="button" onClick={() => setZoom(null)}>Show all steps</button></p>}
    </>
  );
}
