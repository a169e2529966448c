// Owns a reference to an Objective-C object, which is counted by hand.
#pragma once
#import <Foundation/Foundation.h>

#include <utility>

namespace ferrule::metal {

template <class Object>
class Retained {
  public:
    Retained() = default;
    // Takes over the reference that new, alloc or copy gave.
    explicit Retained(Object object) : object_(object) {}
    Retained(Retained&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
    Retained& operator=(Retained&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Retained() { [object_ release]; }

    Object get() const { return object_; }
    explicit operator bool() const { return object_ != nil; }

  private:
    Object object_ = nil;
};

}  // namespace ferrule::metal
