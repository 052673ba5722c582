// cancel: a result is no longer wanted.
#pragma once

#include <mobula/get.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

// Cancels the task or actor call that makes `ref`; get() then throws Cancelled. What has not started never will. A task
// that runs sees current().cancelled and ends as it likes, unless `.force` ends its worker. Tasks that it started are
// cancelled too unless `.recursive = false`. A task that is done already stays done; refs from put() are left alone.
// Returns at once: cancellation is a request.
template <class T>
void cancel(const ObjectRef<T>& ref, CancelOptions options = {}) {
  detail::cancel(detail::checked_handle(ref), options.force, options.recursive);
}

}  // namespace mobula
