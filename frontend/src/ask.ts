// A question to the server. Until the answer to the next one is there, the last one stands.
import { useCallback, useEffect, useState } from "preact/hooks";

export interface Asked<T> { value: T | null; error: string | null; again: () => void }

/** Ask `path`; every `period` ms again, so that what grows on the server is seen to grow. */
export function ask<T>(path: string | null, period?: number): Asked<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    fetch(path, { signal: stop.signal })
      .then(async (response) => {
        const body: unknown = await response.json();
        if (response.ok) {
          setValue(body as T);
          setError(null);
        } else setError((body as { error?: string }).error ?? `the server answered ${response.status}`);
      })
      .catch((problem: unknown) => {
        if (!stop.signal.aborted) setError(`no answer from the server: ${String(problem)}`);
      });
    return () => stop.abort();
  }, [path, turn]);
  useEffect(() => {
    if (!period) return;
    const timer = setInterval(() => document.visibilityState === "visible" && again(), period);
    return () => clearInterval(timer);
  }, [period, again]);
  return { value, error, again };
}
