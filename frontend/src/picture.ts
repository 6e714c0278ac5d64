// Charts as PNG files.
import { saveBlob } from "./take";

/** Pixels of the file per pixel of the page. */
const SHARP = 2;
const MARGIN = 12;

async function canvasOf(svg: SVGSVGElement): Promise<HTMLCanvasElement> {
  const [width, height] = [svg.width.baseVal.value, svg.height.baseVal.value];
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const image = new Image();
  // From a data address: the policies of reports and dashboard allow no other pictures.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [SHARP * (width + 2 * MARGIN), SHARP * (height + 2 * MARGIN)];
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = svg.dataset["surface"] ?? "#ffffff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, SHARP * MARGIN, SHARP * MARGIN, SHARP * width, SHARP * height);
  return canvas;
}

const saveCanvas = (canvas: HTMLCanvasElement, name: string): void => canvas.toBlob((blob) => blob && saveBlob(name, blob), "image/png");

/** Save a chart as it is on the page. */
export async function pngOf(svg: SVGSVGElement, name: string): Promise<void> {
  saveCanvas(await canvasOf(svg), name);
}

/** Save canvases that stand one above another. */
export function pngOfCanvases(parts: HTMLCanvasElement[], surface: string, name: string): void {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...parts.map((one) => one.width));
  canvas.height = parts.reduce((sum, one) => sum + one.height, 0);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = surface;
  context.fillRect(0, 0, canvas.width, canvas.height);
  let y = 0;
  for (const part of parts) {
    context.drawImage(part, 0, y);
    y += part.height;
  }
  saveCanvas(canvas, name);
}
