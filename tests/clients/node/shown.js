// What the records are that a consumer gets. Arguments and output are those of tests/clients/go/shown.
import { crc32 } from 'node:zlib'

const LIMIT_MS = 120_000
const EXTRA_MS = 1000
const [bootstrap, topic, count, maxWaitMs, fetchBytes, isolation, group] = process.argv.slice(2)
export const wanted = {
  bootstrap,
  topic,
  isMember: group !== undefined,
  group: group ?? `${topic}-${process.pid}`, // one of its own: a member that ends here does not leave its group
  maxWaitMs: Number(maxWaitMs),
  fetchBytes: Number(fetchBytes),
  isCommittedOnly: isolation === 'read_committed',
}

let left = Number(count)
let leave = async () => {}

// What a member of a group does at the end.
export function atEnd(whatever) {
  leave = whatever
}

setTimeout(() => process.exit(0), LIMIT_MS).unref()

export function show(offset, value) {
  console.log(`${offset}\t${value.length}\t${crc32(value)}`)
  left -= 1
  if (left === 0) setTimeout(() => leave().then(() => process.exit(0)), EXTRA_MS)
}
