// Encoding of objects.
#include "runtime/wire/fields_common.h"
#include "runtime/wire/messages.h"

namespace mobula::wire::detail {

// ObjectResolved::outcome: a variant that lies in the struct as a union, so the whole struct is written by hand.
template <>
struct Fields<ObjectResolved> {
  using Schema = schema::ObjectResolved;

  static void visit(Sizer& io, const ObjectResolved& value) {
    const auto& [object, outcome] = value;
    if (const auto* inlined = std::get_if<InlineValue>(&outcome)) {
      io.add(inlined->bytes);
      io.add(inlined->refs);
    } else if (const auto* stored = std::get_if<StoredValue>(&outcome)) {
      io.add(*stored);
    } else {
      io.add(std::get<ErrorInfo>(outcome));
    }
  }

  static void visit(Writer<Schema>& io, const ObjectResolved& value) {
    const auto& [object, outcome] = value;
    io.at.getObject().setMaker(object.maker);
    io.at.getObject().setSequence(object.sequence);
    auto arm = io.at.getOutcome();
    if (const auto* inlined = std::get_if<InlineValue>(&outcome)) {
      const auto& [bytes, refs] = *inlined;
      if (!bytes.empty()) arm.setInline(Writer<Schema>::data_of(bytes));
      io.field(refs, "refs", kInlineRefs);
    } else if (const auto* stored = std::get_if<StoredValue>(&outcome)) {
      write_struct<StoredValue>(arm.initStored(), *stored);
    } else {
      write_struct<ErrorInfo>(arm.initError(), std::get<ErrorInfo>(outcome));
    }
  }

  static void visit(Reader<Schema>& io, ObjectResolved& value) {
    auto& [object, outcome] = value;
    object = ObjectId{io.at.getObject().getMaker(), io.at.getObject().getSequence()};
    const auto arm = io.at.getOutcome();
    switch (arm.which()) {
      case schema::ObjectResolved::Outcome::INLINE: {
        auto& [bytes, refs] = outcome.emplace<InlineValue>();
        const auto data = arm.getInline();
        bytes = io.context.share(data.begin(), data.size());
        return io.field(refs, "refs", kInlineRefs);
      }
      case schema::ObjectResolved::Outcome::STORED:
        return read_struct<StoredValue>(arm.getStored(), io.context, outcome.emplace<StoredValue>());
      case schema::ObjectResolved::Outcome::ERROR:
        return read_struct<ErrorInfo>(arm.getError(), io.context, outcome.emplace<ErrorInfo>());
    }
    io.context.fail_enum("outcome", "kind of outcome", static_cast<unsigned>(arm.which()));
  }
};

MOBULA_WIRE_MESSAGE(ResolveObjects, (objects, Objects), (value, Value))
MOBULA_WIRE_MESSAGE(ObjectsResolved, (objects, Objects))
MOBULA_WIRE_MESSAGE(BorrowObjects, (round, Round), (objects, Objects))
MOBULA_WIRE_MESSAGE(ObjectsBorrowed, (round, Round), (objects, Objects), (gone, Gone))
MOBULA_WIRE_MESSAGE(ReleaseObjects, (round, Round), (objects, Objects))
MOBULA_WIRE_MESSAGE(HandoffDone, (tasks, Tasks))
MOBULA_WIRE_MESSAGE(ObjectLocation, (object, Object), (node, Node), (present, Present))
MOBULA_WIRE_MESSAGE(RequestSlab, (request, Request), (bytes, Bytes))
MOBULA_WIRE_MESSAGE(SlabGranted, (request, Request), (slab, Slab), (segment, Segment), (segment_size, SegmentSize),
                    (offset, Offset), (size, Size), (error, Error))
MOBULA_WIRE_MESSAGE(SealObject, (object, Object), (owner, Owner), (job, Job), (slab, Slab), (offset, Offset),
                    (size, Size))
MOBULA_WIRE_MESSAGE(ReturnSlab, (slab, Slab))
MOBULA_WIRE_MESSAGE(PinObject, (object, Object), (size, Size), (nodes, Nodes), (map, Map))
MOBULA_WIRE_MESSAGE(ObjectPinned, (object, Object), (segment, Segment), (segment_size, SegmentSize), (offset, Offset),
                    (size, Size), (copied, Copied), (mapped, Mapped), (error, Error))
MOBULA_WIRE_MESSAGE(UnpinObjects, (objects, Objects))
MOBULA_WIRE_MESSAGE(FreeObjects, (objects, Objects))
MOBULA_WIRE_MESSAGE(ChunkRequest, (request, Request), (object, Object), (content, Content), (offset, Offset),
                    (length, Length))
MOBULA_WIRE_MESSAGE(ChunkReply, (request, Request), (found, Found), (total, Total), (owner, Owner), (job, Job),
                    (length, Length))

}  // namespace mobula::wire::detail
