// A question to the server. Until the answer to the next one is there, the last one stands.
import { useEffect, useState } from "preact/hooks";

export interface Asked<T> { value: T | null; error: string | null }

export function ask<T>(path: string | null): Asked<T> {
  const [asked, set] = useState<Asked<T>>({ value: null, error: null });
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    fetch(path, { signal: stop.signal })
      .then(async (response) => {
        const body: unknown = await response.json();
        if (response.ok) set({ value: body as T, error: null });
        else set({ value: null, error: (body as { error?: string }).error ?? `the server answered ${response.status}` });
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted) set({ value: null, error: `no answer from the server: ${String(error)}` });
      });
    return () => stop.abort();
  }, [path]);
  return asked;
}
