// A consumer of @platformatic/kafka, see shown.js.
import { Consumer, FetchIsolationLevels } from '@platformatic/kafka'
import { atEnd, show, wanted } from './shown.js'

const consumer = new Consumer({
  clientId: 'consumer',
  groupId: wanted.group,
  bootstrapBrokers: [wanted.bootstrap],
})
const stream = await consumer.consume({
  topics: [wanted.topic],
  ...(wanted.isMember
    ? { mode: 'committed', fallbackMode: 'earliest', autocommit: true }
    : { mode: 'manual', offsets: [{ topic: wanted.topic, partition: 0, offset: 0n }], autocommit: false }),
  maxWaitTime: wanted.maxWaitMs,
  maxBytes: wanted.fetchBytes,
  maxBytesPerPartition: wanted.fetchBytes,
  isolationLevel: wanted.isCommittedOnly ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED,
})
if (wanted.isMember) {
  atEnd(async () => {
    await stream.close()
    await consumer.close(true)
  })
}
for await (const { offset, value } of stream) show(offset, value)
