// Encoding of what the head keeps on disk: one message of one segment for each record, framed as frames are.
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "runtime/base/protocol/records.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/fields_actor.h"
#include "runtime/wire/fields_cluster.h"
#include "runtime/wire/flat_builder.h"
#include "runtime/wire/flat_reader.h"
#include "runtime/wire/records.capnp.h"

namespace mobula::wire {
namespace detail {

MOBULA_WIRE(ClusterRecord, (schema, Schema), (cluster, Cluster), (epoch, Epoch), (listen, Listen),
            (advertised, Advertised))
MOBULA_WIRE(NodeRecord, (description, Description), (dead, Dead))
MOBULA_WIRE(ActorRecord, (spec, Spec), (info, Info), (request, Request), (restarts, Restarts))
MOBULA_WIRE(JobRecord, (job, Job), (ended, Ended), (end_time_ms, EndTimeMs))
MOBULA_WIRE(SubmissionRecord, (job, Job), (info, Info))

}  // namespace detail

namespace {

// A record is missing from the switch below, or its overload here, when this does not compile or warns.
struct InitRecord {
  schema::Record::Builder at;
  void operator()(const ClusterRecord& record) { detail::write_struct<ClusterRecord>(at.initCluster(), record); }
  void operator()(const NodeRecord& record) { detail::write_struct<NodeRecord>(at.initNode(), record); }
  void operator()(const ActorRecord& record) { detail::write_struct<ActorRecord>(at.initActor(), record); }
  void operator()(const JobRecord& record) { detail::write_struct<JobRecord>(at.initJob(), record); }
  void operator()(const SubmissionRecord& record) {
    detail::write_struct<SubmissionRecord>(at.initSubmission(), record);
  }
};

void read_record(schema::Record::Reader at, detail::Context& context, Record& record) {
  context.set_message("Record");
  switch (at.which()) {
    case schema::Record::CLUSTER:
      return detail::read_struct<ClusterRecord>(at.getCluster(), context, record.emplace<ClusterRecord>());
    case schema::Record::NODE:
      return detail::read_struct<NodeRecord>(at.getNode(), context, record.emplace<NodeRecord>());
    case schema::Record::ACTOR:
      return detail::read_struct<ActorRecord>(at.getActor(), context, record.emplace<ActorRecord>());
    case schema::Record::JOB: return detail::read_struct<JobRecord>(at.getJob(), context, record.emplace<JobRecord>());
    case schema::Record::SUBMISSION:
      return detail::read_struct<SubmissionRecord>(at.getSubmission(), context, record.emplace<SubmissionRecord>());
  }
  context.fail_enum("kind", "kind of record", static_cast<unsigned>(at.which()));
}

}  // namespace

Result<Bytes> encode_record(const Record& record) {
  constexpr std::size_t kWord = sizeof(capnp::word);
  const std::size_t words = 1 + capnp::sizeInWords<schema::Record>() +
                            std::visit([](const auto& alternative) { return detail::words_of(alternative); }, record);
  const std::size_t size = detail::kSegmentTable + words * kWord;
  if (size > kRecordMax) {
    return make_error(ErrorKind::kInvalid, "the record of " + key_of(record) + " would take " + std::to_string(size) +
                                               " bytes, at most " + std::to_string(kRecordMax) +
                                               " are kept: pass large arguments through the object store (put)");
  }
  auto buffer = std::make_shared_for_overwrite<std::uint64_t[]>(size / kWord);
  std::memset(buffer.get(), 0, size);
  auto* start = reinterpret_cast<std::byte*>(buffer.get());
  detail::write_segment_table(start, words);
  detail::FlatBuilder builder({reinterpret_cast<capnp::word*>(start + detail::kSegmentTable), words});
  std::visit(InitRecord{builder.initRoot<schema::Record>()}, record);
  builder.check_full();
  return Bytes(std::move(buffer), start, size);
}

Result<Record> decode_record(const Bytes& bytes) {
  Record record;
  Status status = detail::read_payload<schema::Record>(
      "record", bytes, kRecordMax,
      [&record](schema::Record::Reader root, detail::Context& context) { read_record(root, context, record); });
  if (!status.ok()) return std::move(status).error();
  return record;
}

}  // namespace mobula::wire
