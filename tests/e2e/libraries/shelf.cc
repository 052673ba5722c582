#include "tests/e2e/libraries/shelf.h"

__attribute__((visibility("default"))) int shelf_height(int boards) {
  return 40 * boards;
}
