// Metrics of a snapshot, by their names.

/** The families of a name, as one list of {of: {label: value}, value, rate, ...}. */
export function series(snapshot, name) {
  for (const families of Object.values(snapshot.metrics)) {
    for (const family of families) if (family.name === name) return labelled(family);
  }
  return [];
}

export function labelled(family) {
  return family.rows.map((row) => ({
    ...row, of: Object.fromEntries(family.labels.map((label, index) => [label, row.of[index]])),
  }));
}

export const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] || 0), 0);
