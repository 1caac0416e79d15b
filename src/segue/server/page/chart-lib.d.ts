export class uPlot {
  constructor(options: Record<string, any>, data: (number | null | undefined)[][], target: HTMLElement);
  setData(data: (number | null | undefined)[][]): void;
  setSize(size: { width: number; height: number }): void;
  redraw(rebuildPaths?: boolean, recalcAxes?: boolean): void;
  destroy(): void;
  root: HTMLElement;
  bbox: { left: number; top: number; width: number; height: number };
  ctx: CanvasRenderingContext2D;
  valToPos(value: number, scale: string, canvas?: boolean): number;
  static paths: { bars(options: Record<string, unknown>): unknown };
}
