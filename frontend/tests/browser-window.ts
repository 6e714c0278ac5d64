// A window with an address and a history, as far as `params.ts` and `selection.ts` use one.
import { vi } from "vitest";

export class BrowserWindow extends EventTarget {
  private entries: string[];
  private at = 0;
  /** Whether the browser refuses to change the address, as it does for files in a frame. */
  refuses = false;

  constructor(address: string) {
    super();
    this.entries = [address];
  }

  get location(): URL {
    return new URL(this.entries[this.at] as string, "http://localhost");
  }

  readonly history = {
    pushState: (_state: unknown, _title: string, to: string): void => {
      if (this.refuses) throw new DOMException("refused", "SecurityError");
      this.entries = [...this.entries.slice(0, this.at + 1), to];
      this.at += 1;
    },
    replaceState: (_state: unknown, _title: string, to: string): void => {
      if (this.refuses) throw new DOMException("refused", "SecurityError");
      this.entries[this.at] = to;
    },
    back: (): void => {
      if (this.at === 0) return;
      this.at -= 1;
      this.dispatchEvent(new Event("popstate"));
    },
  };
}

/** Open a page at an address: modules that are imported after this see it, as after a reload. */
export function open(page: string | BrowserWindow): BrowserWindow {
  const opened = typeof page === "string" ? new BrowserWindow(page) : page;
  vi.resetModules();
  vi.stubGlobal("window", opened);
  return opened;
}
