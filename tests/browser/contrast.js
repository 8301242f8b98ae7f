// The texts whose contrast with their ground is below what WCAG asks of small text, 4.5 to 1.

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

function light(colour) {
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const parts = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function ground(element) {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
  return "white";
}

function contrast(element) {
  const [high, low] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

const hasText = (element) => element.offsetParent && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
return [...document.querySelectorAll("main *, header *")].filter(hasText).filter((element) => contrast(element) < 4.5)
  .map((element) => `${element.className}: ${element.textContent.slice(0, 40)}: ${contrast(element).toFixed(2)}`);
