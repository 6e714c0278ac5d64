// What lies under the pointer, in words: one box for all charts.
let box: HTMLElement | null = null;
/** Between the pointer and the box, and between the box and the edge of the window. */
const [AWAY, EDGE] = [14, 8];

function made(): HTMLElement {
  const element = document.createElement("div");
  element.className = "tip over";
  element.setAttribute("role", "status");
  document.body.append(element);
  return element;
}

/** Show lines beside a point of the window. They are text, whatever they hold. */
export function showTip(text: string, x: number, y: number): void {
  box ??= made();
  box.replaceChildren(...text.split("\n").map((line, at) => {
    const row = document.createElement(at ? "div" : "strong");
    row.textContent = line;
    return row;
  }));
  box.style.display = "block";
  const { width, height } = box.getBoundingClientRect();
  const [right, bottom] = [document.documentElement.clientWidth - EDGE, window.innerHeight - EDGE];
  box.style.left = `${Math.max(EDGE, x + AWAY + width > right ? x - AWAY - width : x + AWAY)}px`;
  box.style.top = `${Math.max(EDGE, y + AWAY + height > bottom ? y - AWAY - height : y + AWAY)}px`;
}

export function hideTip(): void {
  if (box) box.style.display = "none";
}
