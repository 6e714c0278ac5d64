// Areas for a treemap: rectangles as close to squares as their sizes allow (Bruls, Huizing, van Wijk: squarified treemaps).

export interface Rect { x: number; y: number; width: number; height: number }

/** The worst ratio of sides, if these sizes share a row along `side`. */
function worst(sizes: number[], side: number): number {
  const sum = sizes.reduce((total, size) => total + size, 0);
  return Math.max(...sizes.map((size) => Math.max((side * side * size) / (sum * sum), (sum * sum) / (side * side * size))));
}

/** A rectangle for each size, in their order, which must be from the largest to the smallest; nothing is left over. */
export function areasOf(sizes: number[], { x, y, width, height }: Rect): Rect[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (!(total > 0) || width <= 0 || height <= 0) return sizes.map(() => ({ x, y, width: 0, height: 0 }));
  const scale = (width * height) / total;
  const found: Rect[] = [];
  const rest = { x, y, width, height };
  let at = 0;
  while (at < sizes.length) {
    const side = Math.min(rest.width, rest.height);
    let row = [Math.max(1e-9, (sizes[at] as number) * scale)];
    for (let next = at + 1; next < sizes.length; next += 1) {
      const longer = [...row, Math.max(1e-9, (sizes[next] as number) * scale)];
      if (worst(longer, side) > worst(row, side)) break;
      row = longer;
    }
    const thick = row.reduce((sum, size) => sum + size, 0) / side;
    const across = rest.width >= rest.height;
    let place = across ? rest.y : rest.x;
    for (const size of row) {
      const length = size / thick;
      found.push(across ? { x: rest.x, y: place, width: thick, height: length } : { x: place, y: rest.y, width: length, height: thick });
      place += length;
    }
    if (across) [rest.x, rest.width] = [rest.x + thick, Math.max(0, rest.width - thick)];
    else [rest.y, rest.height] = [rest.y + thick, Math.max(0, rest.height - thick)];
    at += row.length;
  }
  return found;
}
