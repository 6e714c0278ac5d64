// The config of a model, for costs where a profile has no shapes: chosen from the served folders, or given from this computer.
import { useState } from "preact/hooks";
import { go, useAddress } from "./address";
import type { Asked } from "./ask";
import { withChanges } from "./params";
import { Problem } from "./parts";
import { below } from "./root";
import type { ModelEntry, Overview } from "./types";

/** What a page of one profile is computed with, beside the profile. */
export const COSTED = ["hardware", "model", "batch", "context"];

/** Send a config; its id, or what is wrong with it. */
async function give(file: File): Promise<{ id: string } | { error: string }> {
  try {
    const answer = await fetch(below(`/api/model?name=${encodeURIComponent(file.name)}`), { method: "POST", body: file, headers: { "X-Solscope": "1" } });
    const body = (await answer.json()) as Partial<ModelEntry> & { error?: string };
    return body.id ? { id: body.id } : { error: body.error ?? `the server answered ${answer.status}` };
  } catch {
    return { error: "not sent: the server does not answer" };
  }
}

export function ModelChoice({ overview }: { overview: Asked<Overview> }) {
  const { path, query } = useAddress();
  const [error, setError] = useState<string | null>(null);
  const model = query.get("model") ?? "";
  const set = (changes: Record<string, string>) => go(withChanges(path, changes));
  const send = async (file: File | undefined) => {
    if (!file) return;
    const answer = await give(file);
    setError("error" in answer ? answer.error : null);
    if ("error" in answer) return;
    overview.again();
    set({ model: answer.id });
  };
  const models = overview.value?.models ?? [];
  return (
    <>
      {models.length > 0 && (
        <label class="field">Model config{" "}
          <select value={model} onChange={(event) => set(event.currentTarget.value ? { model: event.currentTarget.value } : { model: "", batch: "", context: "" })}>
            <option value="">none</option>
            {models.map((one) => <option key={one.id} value={one.id}>{one.label}</option>)}
          </select>
        </label>
      )}
      <label class="field">{models.length ? "or give one" : "Model config"}{" "}
        <input type="file" accept=".json,application/json" title="The model's config.json, for kernels without recorded shapes" onChange={(event) => void send(event.currentTarget.files?.[0])} />
      </label>
      {model && (["batch", "context"] as const).map((name) => (
        <label key={name} class="field">{name === "batch" ? "Batch" : "Context"}{" "}
          <input type="number" min="1" step="1" value={query.get(name) ?? ""} placeholder="as recorded" title={name === "batch" ? "Requests in a decode step, if not in the profile" : "Keys per request in a decode step, if not in the profile"} onChange={(event) => set({ [name]: event.currentTarget.value })} />
        </label>
      ))}
      {error && <Problem text={error} />}
    </>
  );
}
