// Example images, drawn here.
const SIDE = 224; // pixels
const SHAPES = {
  "red circle": ["#d62728", (path) => path.arc(112, 112, 80, 0, 2 * Math.PI)],
  "blue square": ["#1f5fbf", (path) => path.rect(40, 40, 144, 144)],
  "green triangle": ["#2ca02c", (path) => { path.moveTo(112, 30); path.lineTo(200, 190); path.lineTo(24, 190); }],
};

/** Coloured shapes on white, as PNG: [{name, url}]. */
export const exampleImages = () => Object.entries(SHAPES).map(([name, [color, draw]]) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE }), context = canvas.getContext("2d");
  const path = new Path2D();
  draw(path);
  context.fillStyle = "#fff";
  context.fillRect(0, 0, SIDE, SIDE);
  context.fillStyle = color;
  context.fill(path);
  return { name, url: canvas.toDataURL("image/png") };
});
