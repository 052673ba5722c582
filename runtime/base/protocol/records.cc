// Keys of the records: the id of the thing as text, so that a dump of the store can be read.
#include "runtime/base/protocol/records.h"

#include <variant>

namespace mobula {
namespace {

struct Keys {
  std::string operator()(const ClusterRecord&) const { return "cluster"; }
  std::string operator()(const NodeRecord& record) const { return to_string(record.description.node); }
  std::string operator()(const ActorRecord& record) const { return to_string(record.spec.actor); }
  std::string operator()(const JobRecord& record) const { return to_string(record.job.job); }
  std::string operator()(const SubmissionRecord& record) const { return record.info.submission; }
};

}  // namespace

std::string key_of(const Record& record) {
  return std::visit(Keys{}, record);
}

}  // namespace mobula
