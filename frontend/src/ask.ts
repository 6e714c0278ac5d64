// A question to the server. Until the answer to the next one is there, the last one stands.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { below } from "./root";

export interface Asked<T> { value: T | null; error: string | null; again: () => void }

/** Answers that came with the page, by question; each is taken once. */
const given = new Map([...document.querySelectorAll<HTMLScriptElement>("script[data-answer]")].map((one) => [one.dataset["answer"] as string, one]));

function take<T>(question: string | null): T | null {
  const found = question === null ? undefined : given.get(question);
  if (!found || question === null) return null;
  given.delete(question);
  found.remove();
  return JSON.parse(found.textContent ?? "null") as T;
}

/** One way to write a question, so that the server can tell which ones a page begins with. */
function written(path: string): string {
  const url = new URL(path, window.location.origin);
  url.searchParams.sort();
  return `${url.pathname}${url.search}`;
}

/** Ask `path`; every `period` ms again, so that what grows on the server is seen to grow. */
export function ask<T>(path: string | null, period?: number): Asked<T> {
  const question = path === null ? null : written(path);
  const [value, setValue] = useState<T | null>(() => take<T>(question));
  const answered = useRef(value === null ? null : question);
  const [error, setError] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  const waiting = useRef(false);
  useEffect(() => {
    if (question === null) return;
    if (answered.current === question) {
      answered.current = null;
      return;
    }
    const stop = new AbortController();
    waiting.current = true;
    fetch(below(question), { signal: stop.signal })
      .then(async (response) => {
        const body: unknown = await response.json();
        if (response.ok) {
          setValue(body as T);
          setError(null);
        } else setError((body as { error?: string }).error ?? `the server answered ${response.status}`);
      })
      .catch(() => {
        if (!stop.signal.aborted) setError("the server does not answer: is `solscope serve` still running?");
      })
      .finally(() => {
        if (!stop.signal.aborted) waiting.current = false;
      });
    return () => {
      waiting.current = false;
      stop.abort();
    };
  }, [question, turn]);
  useEffect(() => {
    if (!period) return;
    // A server that takes longer than the period gets the time it needs: asking again breaks off the question before.
    const timer = setInterval(() => document.visibilityState === "visible" && !waiting.current && again(), period);
    return () => clearInterval(timer);
  }, [period, again]);
  return { value, error, again };
}
