/* Draws the curves with uPlot over the drawings that are in the page already. Without scripts, or should
   anything here fail, those stay. */
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("assay-data").textContent);
  const dashes = [[], [7, 4], [2, 4], [10, 4, 2, 4], [14, 5], [4, 3], [12, 3, 2, 3, 2, 3], [1, 6]];
  const height = 250;
  const drawn = [];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function short(v) {
    if (v === null || v === undefined) return "–";
    const size = Math.abs(v);
    if (v !== 0 && (size >= 1e7 || size < 1e-3)) return v.toExponential(2).replace(/\.?0+e/, "e");
    return String(+v.toPrecision(size >= 1000 ? 6 : 4));
  }

  /* The number under the pointer stands behind each name of the legend. */
  function showValues(figure, plot) {
    const items = figure.querySelectorAll(".legend li");
    items.forEach(function (item, i) {
      let value = item.querySelector(".value");
      if (!value) {
        value = document.createElement("span");
        value.className = "value";
        item.append(" ", value);
      }
      const at = plot.cursor.idxs ? plot.cursor.idxs[i + 1] : null;
      value.textContent = at === null || at === undefined ? "" :
        short(plot.data[i + 1][at]) + " at " + short(plot.data[0][at]);
    });
  }

  /* Values that are equal but for rounding still get an axis. */
  function range(u, low, high) {
    if (low === null || high === null) return [0, 1];
    const size = Math.max(Math.abs(low), Math.abs(high));
    if (high - low > 1e-6 * size) return uPlot.rangeNum(low, high, 0.1, true);
    return [low - (0.05 * size || 0.5), high + (0.05 * size || 0.5)];
  }

  function options(p, width, figure) {
    const soft = colour("--soft");
    const line = colour("--line");
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: soft, font: font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const names = function (u, ticks) { return ticks.map(short); };
    return {
      width: width,
      height: height,
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, dataIdx: nearest },
      scales: { x: { time: false }, y: p.logarithmic ? { distr: 3 } : { range: range } },
      axes: [
        Object.assign({ label: p.x_label, labelFont: font, labelSize: 18, labelGap: 0, size: 32, values: names }, axis),
        Object.assign({ size: 66, values: p.logarithmic ? function (u, t) { return t.map(function (v) { return v === null ? "" : short(v); }); } : names }, axis)
      ],
      series: [{}].concat(p.curves.map(function (c, i) {
        return { label: c.name, stroke: colour("--c" + i % 8), width: 2, dash: dashes[i % 8], spanGaps: false,
                 points: { show: c.x.length < 3 } };
      })),
      hooks: { setCursor: [function (u) { showValues(figure, u); }] }
    };
  }

  /* Curves have points of their own: the nearest one that this curve has. */
  function nearest(u, series, at) {
    const y = u.data[series];
    if (series === 0 || y[at] !== undefined) return at;
    for (let d = 1; d < y.length; d++) {
      if (y[at - d] !== undefined) return at - d;
      if (y[at + d] !== undefined) return at + d;
    }
    return null;
  }

  /* A value that is not finite leaves a gap; a point that only another curve has leaves none. */
  function joined(p) {
    const tables = p.curves.map(function (c) { return [c.x, c.y]; });
    return tables.length === 1 ? tables[0] : uPlot.join(tables, tables.map(function () { return [0, 2]; }));
  }

  function draw() {
    document.querySelectorAll("figure.plot").forEach(function (figure) {
      const p = data[+figure.dataset.plot];
      const live = figure.querySelector(".live");
      if (!p || !live) return;
      live.textContent = "";
      const plot = new uPlot(options(p, live.clientWidth || 600, figure), joined(p), live);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
      drawn.push({ plot: plot, live: live });
    });
  }

  function redraw() {
    drawn.splice(0).forEach(function (d) { d.plot.destroy(); });
    draw();
  }

  draw();
  document.documentElement.classList.add("drawn");
  let waiting = 0;
  window.addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () {
      drawn.forEach(function (d) { d.plot.setSize({ width: d.live.clientWidth, height: height }); });
    }, 100);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
