// What people see of an experiment, as text: pure, so that it is tested without a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tune/experiment/experiment.h"

namespace mobula::tune {

// Four significant digits for reals.
std::string short_text(const Value& value);
// "lr=0.01234,depth=3"
std::string short_text(const NamedValues& values);
// Likewise, without the constants of the space: what tells trials apart.
std::string short_params(const Space& space, const Params& params);
// The part before the first line break.
std::string first_line(const std::string& text);
// At most `width` letters; a longer one ends in "...".
std::string fit(const std::string& text, std::size_t width);
// "127.0.0.1:4000", or the node's id when its address is not known.
std::string node_name(const Place& place);

// Lines of at most `width` letters, at most `height` of them: a line of counts, a header, and the trials: first those
// that run, then those that are over, best first.
std::vector<std::string> render_table(const Experiment& experiment, const ExperimentConfig& config, std::size_t width,
                                      std::size_t height);
// "16 trials: 5 completed, 10 stopped early, 1 failed"
std::string render_counts(const Experiment& experiment);
// "3 nodes ran trials: 127.0.0.1:4000 (6), ..."
std::string render_nodes(const Experiment& experiment);

}  // namespace mobula::tune
