// A consumer of @platformatic/kafka, see shown.js.
import { Consumer, FetchIsolationLevels } from '@platformatic/kafka'
import { show, wanted } from './shown.js'

const consumer = new Consumer({
  clientId: 'consumer',
  groupId: wanted.group,
  bootstrapBrokers: [wanted.bootstrap],
})
const stream = await consumer.consume({
  topics: [wanted.topic],
  mode: 'manual',
  offsets: [{ topic: wanted.topic, partition: 0, offset: 0n }],
  autocommit: false,
  maxWaitTime: wanted.maxWaitMs,
  maxBytes: wanted.fetchBytes,
  maxBytesPerPartition: wanted.fetchBytes,
  isolationLevel: wanted.isCommittedOnly ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED,
})
for await (const { offset, value } of stream) show(offset, value)
