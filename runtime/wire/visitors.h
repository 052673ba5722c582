// The three visitors of Fields: Sizer counts words, Writer fills a builder, Reader checks and takes over. Each has one
// function `field` for a member and chooses by the member's type how it lies in the schema:
//
//   numbers, bool, Quantity, Id     a scalar                   std::string            Text, null when empty
//   enum                            an enum, checked           Bytes, bytes           Data, null when empty
//   PairId                          a group                    std::optional<T>       a struct, null when absent
//   vector<Id>, vector<integer>     List(UInt64)               vector<PairId>         PairIds, by columns
//   vector<ObjectLocator>           Locators, by columns       vector<string>         List(Text)
//   vector<T>                       List(struct)               T                      a struct; null reads as T{}
//
// Decoding fills an object that was default-constructed, so what the wire lacks keeps the C++ default.
#pragma once

#include <capnp/blob.h>
#include <capnp/list.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/bytes.h"
#include "runtime/base/resources.h"
#include "runtime/wire/common.capnp.h"
#include "runtime/wire/context.h"
#include "runtime/wire/fields.h"

namespace mobula::wire::detail {

template <class T>
struct IsPairId : std::false_type {};
template <class Tag>
struct IsPairId<PairId<Tag>> : std::true_type {};
template <class T>
struct IsId : std::false_type {};
template <class Tag>
struct IsId<Id<Tag>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

using ByteVector = std::vector<std::uint8_t>;

inline std::size_t words_of_bytes(std::size_t bytes) {
  return (bytes + 7) / 8;
}
inline std::size_t words_of_text(std::size_t bytes) {
  return bytes == 0 ? 0 : words_of_bytes(bytes + 1);
}

// ---- columns -------------------------------------------------------------------------------------------------------

// One entry when all are equal, else one per element.
template <class Element, class Get>
std::size_t column_size(const std::vector<Element>& elements, Get get) {
  for (const Element& element : elements)
    if (get(element) != get(elements.front())) return elements.size();
  return elements.empty() ? 0 : 1;
}

template <class Element, class Init, class Get>
void write_column(const std::vector<Element>& elements, Init init, Get get) {
  const auto count = static_cast<unsigned>(column_size(elements, get));
  auto column = init(count);
  for (unsigned i = 0; i < count; ++i) column.set(i, get(elements[i]));
}

// Entry `i` of a column of `count` or one.
inline std::uint64_t column_at(capnp::List<std::uint64_t>::Reader column, unsigned i) {
  return column[column.size() == 1 ? 0 : i];
}

inline bool column_fits(capnp::List<std::uint64_t>::Reader column, unsigned count) {
  return column.size() == count || (column.size() == 1 && count > 0);
}

// ---- Sizer ---------------------------------------------------------------------------------------------------------

// Words that a value takes beyond the struct it is a member of.
class Sizer {
 public:
  std::size_t words = 0;

  template <class T, class Access>
  void field(const T& value, const char*, Access) {
    add(value);
  }

  template <class T>
  void add(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, Quantity> || IsId<T>::value ||
                  IsPairId<T>::value) {
      // In the struct itself.
    } else if constexpr (std::is_same_v<T, std::string>) {
      words += words_of_text(value.size());
    } else if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, ByteVector>) {
      words += words_of_bytes(value.size());
    } else if constexpr (IsOptional<T>::value) {
      if (value) add(*value);
    } else if constexpr (IsVector<T>::value) {
      if (!value.empty()) add_list(value);
    } else {
      add_struct(value);
    }
  }

  template <class T>
  void add_struct(const T& value) {
    words += capnp::sizeInWords<typename Fields<T>::Schema>();
    Fields<T>::visit(*this, value);
  }

 private:
  template <class T>
  void add_list(const std::vector<T>& values) {
    if constexpr (std::is_integral_v<T> || IsId<T>::value) {
      static_assert(sizeof(T) == 8);
      words += values.size();
    } else if constexpr (IsPairId<T>::value) {
      words += capnp::sizeInWords<schema::PairIds>() + values.size();
      words += column_size(values, [](const T& id) { return id.maker; });
    } else if constexpr (std::is_same_v<T, ObjectLocator>) {
      words += capnp::sizeInWords<schema::Locators>() + values.size();
      words += column_size(values, [](const T& locator) { return locator.id.maker; });
      words += column_size(values, [](const T& locator) { return locator.owner_node.value; });
      words += column_size(values, [](const T& locator) { return locator.owner_job.value; });
    } else if constexpr (std::is_same_v<T, std::string> || IsVector<T>::value) {
      words += values.size();  // pointers
      for (const T& value : values) add(value);
    } else {
      words += 1 + values.size() * capnp::sizeInWords<typename Fields<T>::Schema>();
      for (const T& value : values) Fields<T>::visit(*this, value);
    }
  }
};

// ---- Writer --------------------------------------------------------------------------------------------------------

template <class Schema>
class Writer {
 public:
  typename Schema::Builder at;

  template <class T, class Access>
  void field(const T& value, const char*, Access access) {
    if constexpr (std::is_arithmetic_v<T>) {
      access(kOp<Op::kSet>, at, value);
    } else if constexpr (std::is_enum_v<T>) {
      access(kOp<Op::kSet>, at, static_cast<typename Fields<T>::Schema>(value));
    } else if constexpr (std::is_same_v<T, Quantity>) {
      access(kOp<Op::kSet>, at, value.units);
    } else if constexpr (IsId<T>::value) {
      access(kOp<Op::kSet>, at, value.value);
    } else if constexpr (IsPairId<T>::value) {
      auto group = access(kOp<Op::kGet>, at);
      group.setMaker(value.maker);
      group.setSequence(value.sequence);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) access(kOp<Op::kSet>, at, capnp::Text::Reader(value.c_str(), value.size()));
    } else if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, ByteVector>) {
      if (!value.empty()) access(kOp<Op::kSet>, at, data_of(value));
    } else if constexpr (IsOptional<T>::value) {
      if (value) field(*value, "", access);
    } else if constexpr (IsVector<T>::value) {
      if (!value.empty()) write_list(value, access);
    } else {
      Writer<typename Fields<T>::Schema> inner{access(kOp<Op::kInit>, at)};
      Fields<T>::visit(inner, value);
    }
  }

  template <class Container>
  static capnp::Data::Reader data_of(const Container& value) {
    return capnp::Data::Reader(reinterpret_cast<const capnp::byte*>(value.data()), value.size());
  }

 private:
  template <class T, class Access>
  void write_list(const std::vector<T>& values, Access access) {
    const auto count = static_cast<unsigned>(values.size());
    if constexpr (IsPairId<T>::value) {
      auto columns = access(kOp<Op::kInit>, at);
      write_column(
          values, [&](unsigned n) { return columns.initMakers(n); }, [](const T& id) { return id.maker; });
      auto sequences = columns.initSequences(count);
      for (unsigned i = 0; i < count; ++i) sequences.set(i, values[i].sequence);
    } else if constexpr (std::is_same_v<T, ObjectLocator>) {
      write_locators(values, access(kOp<Op::kInit>, at));
    } else {
      auto list = access(kOp<Op::kInit>, at, count);
      for (unsigned i = 0; i < count; ++i) write_element(list, i, values[i]);
    }
  }

  static void write_locators(const std::vector<ObjectLocator>& values, schema::Locators::Builder columns) {
    using Locator = const ObjectLocator&;
    const auto count = static_cast<unsigned>(values.size());
    write_column(
        values, [&](unsigned n) { return columns.initMakers(n); }, [](Locator locator) { return locator.id.maker; });
    write_column(
        values, [&](unsigned n) { return columns.initOwnerNodes(n); },
        [](Locator locator) { return locator.owner_node.value; });
    write_column(
        values, [&](unsigned n) { return columns.initOwnerJobs(n); },
        [](Locator locator) { return locator.owner_job.value; });
    auto sequences = columns.initSequences(count);
    for (unsigned i = 0; i < count; ++i) sequences.set(i, values[i].id.sequence);
  }

  template <class List, class T>
  static void write_element(List& list, unsigned i, const T& value) {
    if constexpr (std::is_integral_v<T>) {
      list.set(i, value);
    } else if constexpr (IsId<T>::value) {
      list.set(i, value.value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) list.set(i, capnp::Text::Reader(value.c_str(), value.size()));
    } else if constexpr (IsVector<T>::value) {
      if (value.empty()) return;
      auto inner = list.init(i, static_cast<unsigned>(value.size()));
      for (unsigned j = 0; j < value.size(); ++j) write_element(inner, j, value[j]);
    } else {
      Writer<typename Fields<T>::Schema> inner{list[i]};
      Fields<T>::visit(inner, value);
    }
  }
};

// ---- Reader --------------------------------------------------------------------------------------------------------

template <class Schema>
class Reader {
 public:
  typename Schema::Reader at;
  Context& context;

  template <class T, class Access>
  void field(T& out, const char* name, Access access) {
    if constexpr (std::is_arithmetic_v<T>) {
      out = access(kOp<Op::kGet>, at);
    } else if constexpr (std::is_enum_v<T>) {
      const auto number = static_cast<unsigned>(access(kOp<Op::kGet>, at));
      if (!Fields<T>::known(number)) return context.fail_enum(name, Fields<T>::kName, number);
      out = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, Quantity>) {
      out.units = access(kOp<Op::kGet>, at);
    } else if constexpr (IsId<T>::value) {
      out.value = access(kOp<Op::kGet>, at);
    } else if constexpr (IsPairId<T>::value) {
      const auto group = access(kOp<Op::kGet>, at);
      out = T{group.getMaker(), group.getSequence()};
    } else if constexpr (IsOptional<T>::value) {
      if (access(kOp<Op::kHas>, at)) field(out.emplace(), name, access);
    } else if (access(kOp<Op::kHas>, at)) {
      read(out, name, access(kOp<Op::kGet>, at), context);
    }
  }

  // What lies behind a pointer.
  template <class T, class Value>
  static void read(T& out, const char* name, const Value& value, Context& context) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (context.take(name, value.size(), 1)) out.assign(value.begin(), value.size());
    } else if constexpr (std::is_same_v<T, Bytes>) {
      out = context.share(value.begin(), value.size());
    } else if constexpr (std::is_same_v<T, ByteVector>) {
      if (context.take(name, value.size(), 1)) out.assign(value.begin(), value.end());
    } else if constexpr (IsVector<T>::value) {
      read_list(out, name, value, context);
    } else {
      Reader<typename Fields<T>::Schema> inner{value, context};
      Fields<T>::visit(inner, out);
    }
  }

 private:
  template <class T, class List>
  static void read_list(std::vector<T>& out, const char* name, const List& list, Context& context) {
    if constexpr (IsPairId<T>::value) {
      read_pair_ids(out, name, list, context);
    } else if constexpr (std::is_same_v<T, ObjectLocator>) {
      read_locators(out, name, list, context);
    } else {
      const unsigned count = list.size();
      if (!context.take(name, count, sizeof(T))) return;
      out.resize(count);
      for (unsigned i = 0; i < count; ++i) {
        if constexpr (std::is_integral_v<T>) {
          out[i] = list[i];
        } else if constexpr (IsId<T>::value) {
          out[i].value = list[i];
        } else {
          read(out[i], name, list[i], context);
        }
      }
    }
  }

  template <class T>
  static void read_pair_ids(std::vector<T>& out, const char* name, schema::PairIds::Reader columns, Context& context) {
    const auto sequences = columns.getSequences();
    const auto makers = columns.getMakers();
    const unsigned count = sequences.size();
    if (!column_fits(makers, count)) return context.fail(name, "columns of different length");
    if (!context.take(name, count, sizeof(T))) return;
    out.resize(count);
    for (unsigned i = 0; i < count; ++i) out[i] = T{column_at(makers, i), sequences[i]};
  }

  static void read_locators(std::vector<ObjectLocator>& out, const char* name, schema::Locators::Reader columns,
                            Context& context) {
    const auto sequences = columns.getSequences();
    const auto makers = columns.getMakers();
    const auto nodes = columns.getOwnerNodes();
    const auto jobs = columns.getOwnerJobs();
    const unsigned count = sequences.size();
    if (!column_fits(makers, count) || !column_fits(nodes, count) || !column_fits(jobs, count))
      return context.fail(name, "columns of different length");
    if (!context.take(name, count, sizeof(ObjectLocator))) return;
    out.resize(count);
    for (unsigned i = 0; i < count; ++i) {
      out[i].id = ObjectId{column_at(makers, i), sequences[i]};
      out[i].owner_node.value = column_at(nodes, i);
      out[i].owner_job.value = column_at(jobs, i);
    }
  }
};

// ---- entry points for whole structs --------------------------------------------------------------------------------

template <class T>
std::size_t words_of(const T& value) {
  Sizer sizer;
  sizer.add_struct(value);
  return sizer.words;
}

template <class T>
void write_struct(typename Fields<T>::Schema::Builder at, const T& value) {
  Writer<typename Fields<T>::Schema> writer{at};
  Fields<T>::visit(writer, value);
}

template <class T>
void read_struct(typename Fields<T>::Schema::Reader at, Context& context, T& value) {
  Reader<typename Fields<T>::Schema> reader{at, context};
  Fields<T>::visit(reader, value);
}

}  // namespace mobula::wire::detail
