#include <mobula/tune/space.h>

#include <cmath>

#include <mobula/error.h>

#include "runtime/base/result.h"

namespace mobula::tune {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw_error(make_error(ErrorKind::kInvalid, text));
}

Domain real_range(const char* name, RealRange range) {
  const std::string text = describe(Domain(range));
  if (!std::isfinite(range.low) || !std::isfinite(range.high) || !(range.low < range.high)) {
    refuse(text + ": needs two finite bounds, low below high");
  }
  if (range.log && !(range.low > 0)) refuse(text + ": a logarithmic range needs a lower bound above 0");
  if (std::string(name).front() != 'q') return range;
  if (!std::isfinite(range.step) || !(range.step > 0)) refuse(text + ": the step must be above 0");
  const double first = std::ceil(range.low / range.step - 1e-9);
  const double last = std::floor(range.high / range.step + 1e-9);
  if (first > last) refuse(text + ": no multiple of the step lies between the bounds");
  if (last - first >= 0x1.0p53) refuse(text + ": the step is too small for these bounds");
  if (range.log && first < 1) refuse(text + ": a logarithmic range needs its first multiple above 0");
  return range;
}

Domain integer_range(IntegerRange range) {
  const std::string text = describe(Domain(range));
  if (range.low > range.high) refuse(text + ": low must not be above high (both are included)");
  if (range.step < 1) refuse(text + ": the step must be at least 1");
  if (range.log && range.low < 1) refuse(text + ": a logarithmic range needs a lower bound of at least 1");
  if (range.log && range.high > (std::int64_t{1} << 53)) refuse(text + ": a logarithmic range ends at 2^53");
  const std::int64_t last = range.high - (range.high % range.step + range.step) % range.step;
  if (last < range.low) refuse(text + ": no multiple of the step lies between the bounds");
  return range;
}

std::string join(const std::vector<Value>& values) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += ", ";
    text += value.is_string() ? '"' + value.text() + '"' : value.text();
  }
  return text;
}

struct Describe {
  std::string operator()(const Value& value) const { return join({value}); }
  std::string operator()(const RealRange& range) const {
    const std::string bounds = Value(range.low).text() + ", " + Value(range.high).text();
    const std::string name = std::string(range.step != 0 ? "q" : "") + (range.log ? "loguniform" : "uniform");
    return name + "(" + bounds + (range.step != 0 ? ", " + Value(range.step).text() : "") + ")";
  }
  std::string operator()(const IntegerRange& range) const {
    const std::string name = range.step != 1 ? "qintegers" : range.log ? "logintegers" : "integers";
    return name + "(" + std::to_string(range.low) + ", " + std::to_string(range.high) +
           (range.step != 1 ? ", " + std::to_string(range.step) : "") + ")";
  }
  std::string operator()(const Choice& domain) const { return "choice(" + join(domain.values) + ")"; }
  std::string operator()(const Grid& domain) const { return "grid(" + join(domain.values) + ")"; }
};

}  // namespace

Domain uniform(double low, double high) {
  return real_range("uniform", {low, high, 0, false});
}
Domain quniform(double low, double high, double step) {
  return real_range("quniform", {low, high, step, false});
}
Domain loguniform(double low, double high) {
  return real_range("loguniform", {low, high, 0, true});
}
Domain qloguniform(double low, double high, double step) {
  return real_range("qloguniform", {low, high, step, true});
}
Domain integers(std::int64_t low, std::int64_t high) {
  return integer_range({low, high, 1, false});
}
Domain qintegers(std::int64_t low, std::int64_t high, std::int64_t step) {
  return integer_range({low, high, step, false});
}
Domain logintegers(std::int64_t low, std::int64_t high) {
  return integer_range({low, high, 1, true});
}

Domain choice(std::vector<Value> values) {
  if (values.empty()) refuse("choice(): needs at least one value");
  return Choice{std::move(values)};
}

Domain grid(std::vector<Value> values) {
  if (values.empty()) refuse("grid(): needs at least one value");
  return Grid{std::move(values)};
}

std::string describe(const Domain& domain) {
  return std::visit(Describe{}, domain);
}

Space::Space(std::initializer_list<Entry> entries) {
  for (const auto& entry : entries) add(entry.name, entry.domain);
}

Space& Space::add(std::string name, Domain domain) {
  if (name.empty()) refuse("a parameter of the space has no name");
  for (const auto& entry : entries_) {
    if (entry.name == name) refuse("the space has two parameters named '" + name + "'");
  }
  entries_.emplace_back(std::move(name), std::move(domain));
  return *this;
}

std::size_t Space::grid_size() const {
  std::size_t size = 1;
  for (const auto& entry : entries_) {
    const auto* axis = std::get_if<Grid>(&entry.domain);
    if (axis == nullptr) continue;
    if (size > kGridSizeMax / axis->values.size()) {
      refuse("the grids of the space have more than " + std::to_string(kGridSizeMax) +
             " combinations: use choice for some of them");
    }
    size *= axis->values.size();
  }
  return size;
}

std::string Space::describe() const {
  std::string text;
  for (const auto& entry : entries_) {
    if (!text.empty()) text += "; ";
    text += entry.name + " = " + tune::describe(entry.domain);
  }
  return text;
}

}  // namespace mobula::tune
