// Names of trials and folders, as Ray Tune makes them.
#pragma once

#include <cstdint>
#include <string>

#include <mobula/tune/value.h>

namespace mobula::tune {

// "18ae7_00005"
std::string trial_id(const std::string& prefix, std::uint32_t trial);
// "5_lr=0.05,depth=3"
std::string experiment_tag(std::uint32_t trial, const Params& params);
// "<trainable>_<id>_<tag>_<session>": the part before the date is cut at 130 bytes, and what a file system or a shell
// dislikes becomes "_".
std::string trial_directory(const std::string& trainable, const std::string& id, std::uint32_t trial,
                            const Params& params, const std::string& session);
// A single folder's name that a user may give: false when it is empty, "." or "..", too long, or has a slash.
bool usable_name(const std::string& name);

}  // namespace mobula::tune
