// Thrown when a device does not exist, cannot run a plan, or fails while it runs one.
#pragma once
#include <stdexcept>

namespace ferrule {

class DeviceFailure : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace ferrule
