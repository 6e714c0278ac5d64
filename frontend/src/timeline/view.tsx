// The time line of a profile, with its tools: search, range, legend, and what is under the pointer.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { categoryColor, causeColor, FAMILIES } from "../colors";
import { useDark } from "../dark";
import { counted, number, percent, time } from "../format";
import { pngOfCanvases } from "../picture";
import { onSelection, select, selected, useSelection } from "../selection";
import type { EventTimeline, Label } from "../types";
import { Drawing, HEAD, type Hit } from "./drawing";
import { follow } from "./gestures";
import { inkOf } from "./ink";
import { matching, nextEvent } from "./search";

interface Props { timeline: EventTimeline; address: string | null; causes: Record<string, string> }

export function TimeLine({ timeline, address, causes }: Props) {
  const area = useRef<HTMLDivElement>(null);
  const [head, body, scroller] = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null), useRef<HTMLDivElement>(null)];
  const drawing = useRef<Drawing | null>(null);
  const [stacks, setStacks] = useState(false);
  const [hover, setHover] = useState<{ hit: Hit; x: number; y: number } | null>(null);
  const [chosen, setChosen] = useState<Hit | null>(null);
  const [query, setQuery] = useState("");
  const [height, setHeight] = useState(300);
  const [problem, setProblem] = useState<string | null>(null);
  const selection = useSelection();
  const dark = useDark();
  const found = useMemo(() => matching(timeline, query), [timeline, query]);

  useEffect(() => {
    if (!area.current || !head.current || !body.current || !scroller.current) return;
    let saved = 0;
    const made = new Drawing(head.current, body.current, scroller.current, timeline, address, () => {
      setProblem(made.tiles.problem);
      window.clearTimeout(saved);
      saved = window.setTimeout(() => {
        const [from, to] = timeline.focus;
        select({ view: made.from === from && made.to === to ? null : [Math.max(0, made.from), made.to] }, true);
      }, 400);
    });
    drawing.current = made;
    (area.current as HTMLDivElement & { timeline?: Drawing }).timeline = made;
    const view = selected().view;
    if (view) made.show(...view);
    const stop = follow(made, area.current, {
      range: (range) => select({ range }),
      hover: (hit, x, y) => setHover(hit && { hit, x, y }),
      click: (hit) => choose(timeline, hit, made, setChosen),
    });
    // The back button leads to what was in sight as well.
    const back = () => {
      const next = selected().view;
      if (next) made.show(...next);
    };
    window.addEventListener("popstate", back);
    const unfollow = onSelection(() => made.invalidate());
    const observer = new ResizeObserver(() => {
      made.refresh();
      setHeight(made.height);
    });
    observer.observe(body.current);
    setHeight(made.height);
    return () => {
      stop();
      unfollow();
      observer.disconnect();
      window.removeEventListener("popstate", back);
      window.clearTimeout(saved);
      made.stop();
    };
  }, [timeline, address]);
  useEffect(() => {
    drawing.current?.setStacks(stacks);
    setHeight(drawing.current?.height ?? 300);
  }, [stacks]);
  useEffect(() => drawing.current?.refresh(), [dark, height]);
  useEffect(() => {
    const made = drawing.current;
    if (!made) return;
    const labels = found ?? byName(timeline, selection.kernel, selection.role, selection.operator);
    made.narrowed = { labels, layer: selection.layer, step: selection.step };
    made.range = selection.range;
    made.chosen = chosen;
    made.invalidate();
  }, [timeline, found, selection, chosen]);

  const jump = async (backwards: boolean) => {
    const made = drawing.current;
    if (!made || !found) return;
    const hit = await nextEvent(made, address, found, chosen?.start ?? made.from, backwards);
    if (!hit) return;
    if (timeline.lanes[hit.lane]?.kind === "stack") setStacks(true);
    setChosen(hit);
    const room = Math.max(hit.dur * 3, Math.min(made.to - made.from, hit.dur * 60));
    made.show(hit.start + hit.dur / 2 - room / 2, hit.start + hit.dur / 2 + room / 2);
  };
  const names = useMemo(() => new Set(timeline.labels.filter((_, at) => found?.[at]).map((label) => label.name)).size, [timeline, found]);
  const hasStacks = timeline.lanes.some((lane) => lane.kind === "stack");
  return (
    <div class="timeline" ref={area} tabIndex={0} role="application" aria-label="Time line. W and S zoom, A and D move, 0 shows all, R chooses the range in sight, Escape clears. The tables below have the same figures as text." onKeyDown={(event) => {
      if (event.key === "/" && (event.target as HTMLElement).tagName !== "INPUT") {
        event.preventDefault();
        event.stopPropagation();
        area.current?.querySelector<HTMLInputElement>("input")?.focus();
      }
    }}>
      <div class="tools">
        <label class="search">
          <span class="hidden">Search the time line</span>
          <input type="search" placeholder="Search kernels, operators, calls…" value={query} onInput={(event) => setQuery(event.currentTarget.value)} onKeyDown={(event) => {
            if (event.key === "Enter") void jump(event.shiftKey);
          }} />
          {found && <><button type="button" onClick={() => void jump(true)} aria-label="Previous">‹</button><button type="button" onClick={() => void jump(false)} aria-label="Next">›</button><span class="faint" aria-live="polite">{names ? counted(names, "name") : "nothing found"}</span></>}
        </label>
        <span class="buttons">
          <button type="button" onClick={() => drawing.current?.show(...timeline.focus)}>Fit</button>
          <button type="button" onClick={() => drawing.current && select({ range: [Math.max(0, drawing.current.from), Math.min(timeline.span_ns, drawing.current.to)] })}>Choose range in sight</button>
          <button type="button" onClick={() => head.current && body.current && pngOfCanvases([head.current, body.current], inkOf(body.current).surface, "time-line.png")}>PNG</button>
          {hasStacks && <button type="button" aria-pressed={stacks} onClick={() => setStacks(!stacks)}>Host calls</button>}
        </span>
      </div>
      <canvas ref={head} class="head" style={{ height: `${HEAD}px` }} />
      <div class="lanes" ref={scroller} style={{ height: `min(${height}px, 72vh)` }}>
        <div style={{ height: `${height}px` }}><canvas ref={body} style={{ height: `min(${height}px, 72vh)` }} /></div>
        {hover && <Tip timeline={timeline} hit={hover.hit} x={hover.x} y={hover.y} place={scroller.current} />}
      </div>
      {problem && <p class="about">{problem}</p>}
      {selection.range && <p class="chosen">Range: <strong>{time(selection.range[1] - selection.range[0])}</strong> from {time(selection.range[0])} on. Kernels, categories and idle time below are those of the range. <button type="button" onClick={() => select({ range: null })}>Clear range</button></p>}
      {chosen && <p class="chosen"><Facts timeline={timeline} hit={chosen} full /> <button type="button" onClick={() => drawing.current?.show(chosen.start - chosen.dur, chosen.start + 2 * chosen.dur)}>Zoom to it</button> <button type="button" onClick={() => choose(timeline, null, drawing.current, setChosen)}>Clear</button></p>}
      <Legend timeline={timeline} causes={causes} />
    </div>
  );
}

/** Labels of a kernel, role or operator that was chosen anywhere on the page. */
function byName(timeline: EventTimeline, kernel: string | null, role: string | null, operator: string | null): Uint8Array | null {
  if (kernel === null && role === null && operator === null) return null;
  return Uint8Array.from(timeline.labels, (label) => ((kernel === null || label.name === kernel) && (role === null || label.role === role) && (operator === null || label.op === operator) ? 1 : 0));
}

/** A click chooses the kernel, layer or step for the whole page; one beside everything chooses nothing. */
function choose(timeline: EventTimeline, hit: Hit | null, drawing: Drawing | null, set: (hit: Hit | null) => void): void {
  set(hit);
  drawing?.invalidate();
  const kind = hit && timeline.lanes[hit.lane]?.kind;
  const name = hit && (timeline.labels[hit.label]?.name ?? null);
  const nothing = { kernel: null, role: null, operator: null, shape: null, layer: null, step: null };
  if (!hit) select(nothing);
  else if (kind === "gpu") select({ ...nothing, kernel: name });
  else if (kind === "layer") select({ ...nothing, layer: hit.layer });
  else if (kind === "step") select({ ...nothing, step: hit.step });
}

function Tip({ timeline, hit, x, y, place }: { timeline: EventTimeline; hit: Hit; x: number; y: number; place: HTMLElement | null }) {
  const right = x > (place?.clientWidth ?? 0) / 2;
  const top = y + (place?.scrollTop ?? 0) + 14;
  return <div class="tip floating" style={{ top: `${top}px`, ...(right ? { right: `${(place?.clientWidth ?? 0) - x + 8}px` } : { left: `${x + 8}px` }) }}><Facts timeline={timeline} hit={hit} /></div>;
}

function Facts({ timeline, hit, full }: { timeline: EventTimeline; hit: Hit; full?: boolean }) {
  const label: Label = timeline.labels[hit.label] ?? { name: "?", category: null, role: null, op: null, full: null };
  const lane = timeline.lanes[hit.lane];
  const facts = [
    `${time(hit.dur)} at ${time(hit.start)}`,
    hit.count > 1 && `busy ${percent(hit.dur ? Math.min(100, (100 * hit.busy) / hit.dur) : 100)}; zoom in for single events`,
    label.category && label.category !== label.name && label.category,
    label.role && `role ${label.role}`,
    hit.layer !== null && lane?.kind === "gpu" && `layer ${hit.layer}`,
    hit.step !== null && lane?.kind !== "step" && `step ${hit.step}`,
    label.op,
    hit.wait !== null && hit.count === 1 && lane?.kind === "gpu" && `started ${time(hit.wait)} after its launch call began`,
    lane?.title,
  ].filter(Boolean);
  return <><strong>{hit.count > 1 ? `${number(hit.count)} events, most time: ${label.name}` : label.name}</strong><br />{facts.join(" · ")}{full && label.full && <code class="block">{label.full}</code>}</>;
}

/** The colors that occur. */
function Legend({ timeline, causes }: { timeline: EventTimeline; causes: Record<string, string> }) {
  const { families, idle } = useMemo(() => {
    const categories = new Set(timeline.labels.map((label) => label.category));
    const names = new Set(timeline.labels.map((label) => label.name));
    return { families: FAMILIES.filter((one) => one.categories.some((category) => categories.has(category))), idle: Object.keys(causes).filter((cause) => names.has(cause)) };
  }, [timeline, causes]);
  return (
    <p class="legend small">
      {families.map((one) => <span key={one.name} title={one.categories.join(", ")}><span class="dot" style={{ background: categoryColor(one.categories[0] ?? null) }} />{one.name}</span>)}
      {idle.map((cause) => <span key={cause} title={causes[cause]}><span class="dot" style={{ background: causeColor(cause) }} />idle: {cause}</span>)}
    </p>
  );
}

/** How much of the recording the picture holds. */
export function aboutTimeline(timeline: EventTimeline, inReport: boolean): string {
  const all = `${counted(timeline.events, "event")} over ${time(timeline.span_ns)}.`;
  const coarse = new Set(timeline.block.parts.flatMap((part) => (part.level ? [timeline.lanes[part.lane]?.kind] : [])));
  const held = timeline.block.parts.reduce((sum, part) => sum + part.rows, 0);
  const merged = inReport && !timeline.complete ? ` This file holds ${number(held)} of them: ${coarse.has("gpu") ? "GPU activities and host calls" : "calls of the host"} that are shorter than ${time(Math.max(...timeline.block.parts.map((part) => timeline.levels[part.level] ?? 0)))} are merged; \`solscope serve\` shows each.` : "";
  const deep = timeline.too_deep ? ` ${number(timeline.too_deep)} calls are nested too deep to be drawn.` : "";
  const sensors = timeline.sensors_left_out ? ` ${counted(timeline.sensors_left_out, "sensor")} that never changed ${timeline.sensors_left_out === 1 ? "is" : "are"} left out.` : "";
  return `${all}${merged}${deep}${sensors} Drag to move; wheel (after a click, or with Ctrl) or W and S to zoom; drag along the ruler, or with Shift, to choose a range; double-click an event to zoom to it.`;
}
